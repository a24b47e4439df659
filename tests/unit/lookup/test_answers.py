from __future__ import annotations

from magnetar.lookup.answers import Answers


def test_an_answer_is_valid_for_a_while() -> None:
    answers: Answers[str, int] = Answers(10, 2.0)
    answers.put("a", 1, now=5.0)
    assert (answers.get("a", 6.9), answers.get("a", 7.0), answers.get("b", 5.0)) == (1, None, None)
    assert [answers.is_aging("a", now) for now in (6.0, 6.1)] == [False, True]
    assert not answers.is_aging("b", 6.1)
    answers.put("a", 2, now=8.0)
    assert answers.get("a", 8.0) == 2


def test_the_oldest_answer_beyond_the_number_is_forgotten() -> None:
    answers: Answers[str, int] = Answers(2, 2.0)
    for number, key in enumerate("abac"):
        answers.put(key, number, now=0.0)
    assert [answers.get(key, 0.0) for key in "abc"] == [2, None, 3]
    assert len(answers) == 2
