# SPDX-License-Identifier: Apache-2.0
"""The steps of a program, at each of which a test may kill it."""


class Killed(BaseException):
    """kill -9 at a step."""


class Steps:
    """Counts the steps of a program, and kills the program before or after one of them."""

    def __init__(self, at=None, *, after=False):
        self.at, self.after, self.count = at, after, 0

    def watch(self, target):
        """Return ``target`` with each of its methods as a step."""
        return _Watched(target, self)

    def step(self, what, *arguments, **named):
        self.count += 1
        last = self.count == self.at  # this step may consist of others, which are counted too
        if last and not self.after:
            raise Killed
        found = what(*arguments, **named)
        if last:
            raise Killed
        return found


class Before(Steps):
    """Does something before the first call of the method ``name``."""

    def __init__(self, name, what):
        super().__init__()
        self._todo = {name: what}

    def step(self, what, *arguments, **named):
        self._todo.pop(what.__name__, lambda: None)()
        return super().step(what, *arguments, **named)


class _Watched:
    def __init__(self, target, steps):
        self._target, self._steps = target, steps

    def __getattr__(self, name):
        what = getattr(self._target, name)
        return lambda *arguments, **named: self._steps.step(what, *arguments, **named)
