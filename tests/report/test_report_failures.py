from memfin.report.common import FailureCounter


def test_messages_that_differ_in_numbers_are_one_group_with_the_first_as_example() -> None:
    counter = FailureCounter()
    counter.add("turn error", "timeout after 120.01 s", "d1 turn 1")
    counter.add("turn error", "timeout after 119.8 s", "d2 turn 4")
    counter.add("turn error", "refused", "d3 turn 2")
    counter.add("turn error", None, "d4 turn 1")
    groups = counter.groups(10)
    assert [(group.message, group.count, group.example) for group in groups] == [
        ("timeout after 120.01 s", 2, "d1 turn 1"),
        ("(no message)", 1, "d4 turn 1"),
        ("refused", 1, "d3 turn 2"),
    ]


def test_the_kind_keeps_groups_apart() -> None:
    counter = FailureCounter()
    counter.add("judge", "HTTP 503", "d1")
    counter.add("turn error", "HTTP 503", "d1")
    assert {group.kind for group in counter.groups(10)} == {"judge", "turn error"}


def test_any_number_of_messages_stays_bounded_and_no_failure_is_lost() -> None:
    counter = FailureCounter()
    for number in range(3000):
        word = "".join(chr(ord("g") + int(digit)) for digit in str(number))
        counter.add("turn error", f"message {word}", "somewhere")
    groups = counter.groups(20)
    assert len(groups) == 21
    assert sum(group.count for group in groups) == 3000
