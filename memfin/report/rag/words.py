"""The words for what a benchmark measures (RAG benchmark schema)."""

from typing import Final, NamedTuple


class TypeText(NamedTuple):
    """A type of question: its title, what it measures, and the parts of its score with their weights."""

    name: str
    title: str
    meaning: str
    parts: tuple[tuple[str, str, float], ...]


TYPES: Final = (
    TypeText(
        "fact_exact",
        "Facts",
        "One exact fact, and citations that support it.",
        (("exact_match", "Exact match", 0.7), ("citation_correctness", "Citations correct", 0.3)),
    ),
    TypeText(
        "evidence_set",
        "Sets of evidence",
        "All places of the document that bear on a question, and little besides.",
        (
            ("recall", "Recall of evidence", 0.5),
            ("precision", "Precision of evidence", 0.3),
            ("citation_provided", "Citation provided", 0.2),
        ),
    ),
    TypeText(
        "conflict_gap",
        "Conflicts and gaps",
        "What the document leaves open: to be declined, without inventions, quoting the words that say so.",
        (
            ("correct_abstention", "Abstention correct", 0.4),
            ("no_hallucination", "Nothing invented", 0.4),
            ("quote_included", "Quote included", 0.2),
        ),
    ),
)
"""The types in the order of reports."""

MARKS: Final = {"faithfulness": "Faithfulness", "answer_correctness": "Answer correctness"}
"""A judge's marks, by their names in results, with their titles."""

MARK_SCALE: Final = (1.0, 5.0)

BY_NAME: Final = {text.name: text for text in TYPES}

NOTES: Final = (
    (
        "Score",
        (
            "The sum of the questions' scores in percent of the greatest possible sum. A question's greatest "
            "score is its weight, multiplied by the weight of its type."
        ),
    ),
    (
        "Passed",
        "A question passes with 70 % of its greatest score, or with what its file says in place of that.",
    ),
    (
        "Facts",
        "0.7 for a match of every expected value, 0.3 times the share of critical evidence that is cited.",
    ),
    (
        "Sets of evidence",
        (
            "0.5 when recall reaches its threshold, 0.3 when precision does, 0.2 when a citation that "
            "supports the answer is provided."
        ),
    ),
    (
        "Conflicts and gaps",
        (
            "0.4 for declining when, and only when, the question asks for it; 0.4 when the answer names no "
            "amount, date, count or name that the document does not hold; 0.2 for the required quote."
        ),
    ),
    (
        "Failed",
        "The system gave no answer: it raised, ran out of time, or broke the contract. That scores 0.",
    ),
)
"""How to read the report."""

JUDGE_NOTES: Final = (
    (
        "Faithfulness",
        (
            "A judge's mark, 1 to 5: is every statement of the answer borne out by the pages that the judge "
            "was given, those with the required evidence and those that the answer points at? It changes no "
            "score."
        ),
    ),
    (
        "Answer correctness",
        (
            "A judge's mark, 1 to 5: does the answer say what the benchmark expects? It changes no score; "
            "where it and the formula differ, read the answer."
        ),
    ),
)
"""How to read the judge's part of the report."""
