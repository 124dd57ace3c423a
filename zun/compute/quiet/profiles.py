# SPDX-License-Identifier: Apache-2.0
"""Power profiles: the clock and the sleep states that an operator lets containers ask for by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zun.objects.wishes import PROFILE
from zun.topology.files import Tree

_EXAMPLE = "name:low-latency,governor:performance,deepest_state:C1"
MEMBERS = ("name", "governor", "min_mhz", "energy_preference", "deepest_state")


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile. A member that is None leaves the host's own value.

    ``deepest_state`` is the name of the deepest sleep state that is allowed, for example ``C1``.
    """

    name: str
    governor: str | None = None
    min_mhz: int | None = None
    energy_preference: str | None = None
    deepest_state: str | None = None

    def latency(self, latencies: Mapping[str, int]) -> str | None:
        """Return the value of ``pm_qos_resume_latency_us``, for sleep states with these ``latencies`` by name.

        The file takes ``n/a`` for "never sleep" and ``0`` for "no limit", so no latency is written as ``n/a``.
        """
        if self.deepest_state is None or self.deepest_state not in latencies:
            return None
        return str(latencies[self.deepest_state]) if latencies[self.deepest_state] else "n/a"


def parsed(texts: Iterable[str]) -> dict[str, Profile]:
    """Return the profiles of ``[compute] power_profiles`` by name. Raise ValueError, with the text, for another form.
    """
    found: dict[str, Profile] = {}
    for text in texts:
        pairs = [part.partition(":") for part in text.split(",")]
        members: dict[str, Any] = {key.strip(): value.strip() for key, _, value in pairs}
        wrong = next((key for key, value in members.items() if key not in MEMBERS or not value), None)
        if wrong is not None or len(pairs) != len(members) or "name" not in members:
            raise ValueError(
                f"{text!r} must have the member name and some of {', '.join(MEMBERS[1:])}, each once with a value, for "
                f"example {_EXAMPLE}"
            )
        name, mhz = members["name"], members.get("min_mhz")
        if not re.fullmatch(PROFILE, name) or len(name) > 64:
            raise ValueError(
                f"{text!r}: name must be up to 64 small letters, digits and '-' between them, got {name!r}"
            )
        if mhz is not None:
            if not re.fullmatch(r"[1-9]\d{0,5}", mhz):
                raise ValueError(f"{text!r}: min_mhz must be a whole number from 1 up, got {mhz!r}")
            members["min_mhz"] = int(mhz)
        if name in found:
            raise ValueError(f"{text!r}: there is a profile {name} already; give each a name of its own")
        found[name] = Profile(**members)
    return found


def problem(profile: Profile, tree: Tree, cpus: Collection[int]) -> str | None:
    """Return why the machine cannot give ``profile`` to each of ``cpus``, or None. The reason names the first CPU."""
    for cpu in cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        words = (
            ("scaling_available_governors", "governor", profile.governor),
            ("energy_performance_available_preferences", "energy preference", profile.energy_preference),
        )
        for file, what, wanted in words:
            offered = (tree.text(f"{folder}/cpufreq/{file}") or "").split()
            if wanted is not None and wanted not in offered:
                return f"CPU {cpu} has no {what} {wanted}: it has {', '.join(offered) or 'none'}"
        least, most = (tree.number(f"{folder}/cpufreq/cpuinfo_{each}_freq") for each in ("min", "max"))
        if profile.min_mhz is not None:
            if least is None or most is None:
                return f"the clock of CPU {cpu} cannot be set"
            if not least <= profile.min_mhz * 1000 <= most:
                return f"CPU {cpu} runs at {least // 1000} to {most // 1000} MHz, never at least {profile.min_mhz}"
        states = latencies(tree, cpu)
        if profile.deepest_state is not None and profile.deepest_state not in states:
            return f"CPU {cpu} has no sleep state {profile.deepest_state}: it has {', '.join(states) or 'none'}"
    return None


def latencies(tree: Tree, cpu: int) -> dict[str, int]:
    """Return the sleep states of a CPU, lightest first: name -> microseconds until the CPU runs again."""
    folder = f"sys/devices/system/cpu/cpu{cpu}/cpuidle"
    found = {}
    for number in tree.ids(folder, "state"):
        name, latency = tree.text(f"{folder}/state{number}/name"), tree.number(f"{folder}/state{number}/latency")
        if name is not None and latency is not None:
            found[name] = latency
    return found
