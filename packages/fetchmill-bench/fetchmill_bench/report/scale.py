"""Computes the positions of values on a logarithmic axis, and the values to label."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Minimum factor that an axis spans, so that the noise of one value, or of similar values, does not fill the plot.
_SPAN_MIN = 5.0
_TICKS_MAX = 7


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis.

    Args:
        low: the value at the start of the axis, above 0.
        high: the value at the end of the axis, above `low`.
        start: position of the start, in units of the picture.
        end: position of the end. It is less than `start` for an axis that points up.
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> "Scale":
        """Creates an axis that contains all values, with some space around them."""
        found = list(values)
        low, high = min(found) * 0.8, max(found) * 1.25
        missing = math.sqrt(max(1.0, _SPAN_MIN / (high / low)))
        return cls(low / missing, high * missing, start, end)

    @classmethod
    def of_bars(cls, values: Iterable[float], start: float, end: float) -> "Scale":
        """Creates an axis from a power of ten below all values.

        Bars start at a power of ten, because a logarithmic axis has no zero.
        """
        found = list(values)
        low = 10.0 ** math.floor(math.log10(min(found) * 0.8))
        return cls(low, max(*found, low * _SPAN_MIN), start, end)

    def at(self, value: float) -> float:
        """Returns the position of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Returns values to label, which are 1, 2 and 5 times each power of ten.

        If that gives too many values, returns only the powers of ten, or only some of the powers.
        """
        powers = [
            10.0**power for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        ]
        fine = self._inside(factor * power for power in powers for factor in (1, 2, 5))
        if len(fine) <= _TICKS_MAX:
            return fine
        coarse = self._inside(powers)
        return coarse[:: math.ceil(len(coarse) / _TICKS_MAX)]

    def ticks_at(self, values: Sequence[float], apart: float) -> list[float]:
        """Returns the values whose labels are at least this far apart, in units of the picture.

        The last value is always included.
        """
        kept: list[float] = []
        for value in sorted(set(values), reverse=True):
            if not kept or abs(self.at(kept[-1]) - self.at(value)) >= apart:
                kept.append(value)
        return kept[::-1]

    def _inside(self, values: Iterable[float]) -> list[float]:
        return [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
