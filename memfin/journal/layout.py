"""What stands in the run directory of each suite, by name; the journal itself is the same for all."""

from typing import Final, NamedTuple

from memfin.journal.commits import (
    DIALOG_TRACE,
    JUDGEMENTS,
    RAG_ANSWERS,
    RAG_JUDGEMENTS,
    RAG_RESULTS,
    TURN_EVAL,
)

JUDGE_CONTROLS: Final = "judge_controls.json"
RAG_JUDGE_CONTROLS: Final = "rag_judge_controls.json"


class Layout(NamedTuple):
    """The files of one suite's runs.

    ``rows`` are there from the beginning. ``first`` is that of them to which the first commit of every
    dialogue or question adds one line. ``judged`` is where the final rows go, and ``judgements`` where what
    a language model said of them does. ``artifacts`` are the whole files that a run writes besides its rows,
    and ``ends`` those of them that only a complete run has.
    """

    rows: tuple[str, ...]
    first: str
    judged: str
    judgements: str
    artifacts: tuple[str, ...]
    ends: tuple[str, ...]


DIALOGUES: Final = Layout(
    rows=(DIALOG_TRACE, TURN_EVAL),
    first=DIALOG_TRACE,
    judged=TURN_EVAL,
    judgements=JUDGEMENTS,
    artifacts=("config.json", JUDGE_CONTROLS, "metrics_summary.json", "run_manifest.json", "run_stats.json"),
    ends=("metrics_summary.json", "run_stats.json"),
)

QUESTIONS: Final = Layout(
    rows=(RAG_RESULTS,),
    first=RAG_RESULTS,
    judged=RAG_RESULTS,
    judgements=RAG_JUDGEMENTS,
    artifacts=("config.json", "rag_summary.json", "run_manifest.json", "run_stats.json"),
    ends=("rag_summary.json", "run_stats.json"),
)

JUDGED_QUESTIONS: Final = QUESTIONS._replace(
    rows=(RAG_ANSWERS, RAG_RESULTS),
    first=RAG_ANSWERS,
    artifacts=(*QUESTIONS.artifacts, RAG_JUDGE_CONTROLS),
)
"""Where a judge reads the answers: they are on disk before it does, results once it has."""
