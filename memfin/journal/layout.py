"""Files of the run directory of each suite, by name; the journal itself is the same for all."""

from typing import Final, NamedTuple

DIALOG_TRACE: Final = "dialog_trace.jsonl"
TURN_EVAL: Final = "turn_eval.jsonl"
JUDGEMENTS: Final = "judgements.jsonl"
RAG_RESULTS: Final = "rag_results.jsonl"
RAG_ANSWERS: Final = "rag_answers.jsonl"
RAG_JUDGEMENTS: Final = "rag_judgements.jsonl"

DATASET: Final = "dataset.jsonl"
"""Copy of a dataset that was given as objects instead of a path."""

JUDGE_CONTROLS: Final = "judge_controls.json"
RAG_JUDGE_CONTROLS: Final = "rag_judge_controls.json"


class Layout(NamedTuple):
    """The files of one suite's runs.

    ``rows`` are there from the beginning; the first commit of every dialogue or question adds one line to the
    first of them. ``files`` are all that rows may go to. ``artifacts`` are the whole files that a run writes
    besides, and ``ends`` those of them that only a complete run has.
    """

    rows: tuple[str, ...]
    files: tuple[str, ...]
    artifacts: tuple[str, ...]
    ends: tuple[str, ...]


DIALOGUES: Final = Layout(
    rows=(DIALOG_TRACE, TURN_EVAL),
    files=(DIALOG_TRACE, TURN_EVAL, JUDGEMENTS),
    artifacts=(
        DATASET,
        "config.json",
        JUDGE_CONTROLS,
        "metrics_summary.json",
        "run_manifest.json",
        "run_stats.json",
    ),
    ends=("metrics_summary.json", "run_stats.json"),
)

QUESTIONS: Final = Layout(
    rows=(RAG_RESULTS,),
    files=(RAG_RESULTS, RAG_ANSWERS, RAG_JUDGEMENTS),
    artifacts=("config.json", "rag_summary.json", "run_manifest.json", "run_stats.json"),
    ends=("rag_summary.json", "run_stats.json"),
)

JUDGED_QUESTIONS: Final = QUESTIONS._replace(
    rows=(RAG_ANSWERS, RAG_RESULTS), artifacts=(*QUESTIONS.artifacts, RAG_JUDGE_CONTROLS)
)
"""Layout of a run with a judge: answers are committed before judging, results after it."""
