# SPDX-License-Identifier: Apache-2.0
"""One line of a log for each message: characters that would begin a new line or control a terminal are escaped."""

import copy
import logging
from typing import Any


def escaped(text: str) -> str:
    """Return ``text`` with each character that is not printable as Python writes it: a line break as ``\\n``."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable(text: str) -> str:
    """Return ``text``, which anybody may have chosen, with a space for each character that is not printable."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


class OneLine(logging.Formatter):
    """Format as ``inner`` does, but escape text so that values from users cannot forge a line.

    The message becomes one line. A traceback keeps its line breaks; oslo.log begins each of its lines with the time and
    the logger.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> Any:
        record = copy.copy(record)  # formatting writes the text of the traceback to it
        formatted: Any = self._inner.format(record)
        if not isinstance(formatted, str) or formatted.isprintable():  # oslo.log's for fluentd returns a mapping
            return formatted
        traces = [each for each in (record.exc_text, record.stack_info) if each]
        begins = min((at for each in traces if (at := formatted.rfind("\n" + each)) >= 0), default=len(formatted))
        return escaped(formatted[:begins]) + "\n".join(map(escaped, formatted[begins:].split("\n")))


def install() -> None:
    """Make every handler of this process write through ``OneLine``. Call it once logging is set up."""
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.Logger.manager.loggerDict))]
    for handler in {handler for each in loggers for handler in each.handlers}:
        if not isinstance(handler.formatter, OneLine):
            handler.setFormatter(OneLine(handler.formatter or logging.Formatter()))
