"""What an exception of a handler means for its job."""

from typing import Dict, Literal, Mapping, Type, Union

from ._outcome import Drop, Fatal, Outcome, Retry, Seconds, Unknown, class_names, delay_ms_of, head_of

#: What follows an exception: a dead letter at once, another attempt by the type's policy, the same as after :class:`Unknown`, a
#: job that is no longer wanted, or another attempt no sooner than after that many seconds.
Rule = Union[Literal["fatal", "retry", "unknown", "drop"], Seconds]

_WORDS = ("fatal", "retry", "unknown", "drop")


class Rules:
    """Rules by class of exception. The nearest class decides: that of the exception, then its ancestors."""

    def __init__(self) -> None:
        self._rules: Dict[type, Rule] = {}

    def add(self, rules: Mapping[Type[BaseException], Rule]) -> None:
        for class_, rule in rules.items():
            _check(class_, rule)
        self._rules.update(rules)

    def outcome(self, error: BaseException, text: str, *, is_once: bool = False) -> Outcome:
        """The outcome of an attempt with this exception, which the text describes.

        ``"drop"`` does not hold for a step that must not run twice: the class does not say how far the handler came.
        """
        for class_ in type(error).__mro__:
            if class_ in self._rules:
                rule = self._rules[class_]
                return _outcome("retry" if rule == "drop" and is_once else rule, error, text)
        # The configuration of the worker may have a rule.
        undecided = Retry(text)
        undecided._classes = class_names(error)
        return undecided


def _outcome(rule: Rule, error: BaseException, text: str) -> Outcome:
    if rule == "fatal":
        return Fatal(text)
    if rule == "unknown":
        return Unknown(text)
    if rule == "drop":
        return Drop(head_of(error))
    return Retry(text) if isinstance(rule, str) else Retry(text, delay=rule)


def _check(class_: object, rule: object) -> None:
    if not (isinstance(class_, type) and issubclass(class_, BaseException)):
        raise TypeError(f"errors: {class_!r} is not a class of exceptions")
    name = class_.__qualname__
    if issubclass(class_, Outcome):
        raise TypeError(f"errors: {name} is an outcome, which needs no rule")
    if isinstance(rule, str):
        if rule not in _WORDS:
            raise ValueError(f"errors: the rule of {name} must be 'fatal', 'retry', 'unknown', 'drop' or a number of seconds, not {rule!r}")
        return
    try:
        delay_ms_of(rule)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise type(error)(f"errors: the rule of {name}: {error}") from None
