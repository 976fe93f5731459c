"""The setting `augment`: which random changes, and how much of each. Apart from the changes, which need torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How strongly training sequences are changed; 0 is not at all. The defaults are those of a name alone."""

    jitter: float = 0.05
    """Standard deviation of the noise, in units of the scaled inputs."""
    scaling: float = 0.1
    """Standard deviation of the logarithm of a factor, one per channel."""
    slice: float = 0.1
    """Largest share of the steps that is cut off; the rest is stretched to the old length."""
    warp: float = 0.2
    """Largest relative change of speed, below 1."""
    mixup: float = 0.2
    """Parameter of the beta distribution that draws the share of a second sequence."""


NAMES = tuple(field.name for field in fields(Amounts))


def augmentation(text: str) -> Amounts:
    """Read the setting.

    Args:
        text: names with amounts, separated by commas, as in "jitter=0.1, mixup"; or "none".

    Returns:
        The amount of each change; 0 for those that are not named.

    >>> augmentation("jitter=0.1, mixup")
    Amounts(jitter=0.1, scaling=0.0, slice=0.0, warp=0.0, mixup=0.2)
    """
    if not isinstance(text, str):
        checks.fail("augment", 'be text, such as "jitter=0.05, mixup"', text, kind=checks.KindError)
    amounts = dict.fromkeys(NAMES, 0.0)
    for part in text.split(",") if text.strip() != "none" else []:
        name, _, amount = (word.strip() for word in part.partition("="))
        checks.one_of("augment", name, (*NAMES, "none"))
        if name == "none":
            checks.fail("augment", "be none alone, or name changes", text)
        amounts[name] = _number(part, amount) if amount else getattr(Amounts, name)
    return Amounts(**amounts)


def _number(part: str, amount: str) -> float:
    try:
        value = float(amount)
    except ValueError:
        value = -1.0
    below_one = part.strip().startswith(("slice", "warp"))
    if not (0 < value < (1 if below_one else 1e6)):
        rule = f"have amounts above 0{' and below 1' if below_one else ''}"
        checks.fail("augment", rule, part.strip(), "Write none, or omit a change, to switch it off.")
    return value
