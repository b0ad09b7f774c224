"""Answers are kept for short texts, and only for those."""

from memfin.scoring.constraints.kept import LONGEST, MOST, kept


def test_a_short_text_is_answered_once() -> None:
    asked: list[str] = []

    @kept
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length("四字之文"), length("四字之文"), length("五字")] == [4, 4, 2]
    assert asked == ["四字之文", "五字"]


def test_a_long_text_is_not_held() -> None:
    asked: list[int] = []

    @kept
    def length(text: str) -> int:
        asked.append(len(text))
        return len(text)

    for _ in range(2):
        assert length("长" * (LONGEST + 1)) == LONGEST + 1
    assert asked == [LONGEST + 1, LONGEST + 1]


def test_what_is_kept_is_bounded() -> None:
    asked: list[str] = []

    @kept
    def echo(text: str) -> str:
        asked.append(text)
        return text

    for number in range(MOST + 1):
        echo(str(number))
    assert echo("0") == "0"
    assert asked.count("0") == 2
