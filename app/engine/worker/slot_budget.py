"""How many slots a model gets from the free memory of its GPU."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SLOTS = 512  # a step of more rows takes longer than streams should wait for a token
LEAST_SLOTS = 16  # one request of 16 hypotheses; a server of fewer is better told so
RESERVE = 0.10  # of the device's memory: prefills, inspections, CUDA's libraries, other programs
LOGITS = 4  # copies of fp32 logits a slot: of a step of all rows, of all smaller ones, and twice for the choice
MIB, GIB = 1 << 20, 1 << 30


class NoRoom(Exception):
    """The device has no memory for the fewest slots. Its message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class SlotBudget:
    """The slots of one model and what they were computed from. slot_bytes: caches and logits of one slot; free_bytes:
    with the model's weights in place; others_bytes: weights of the `others` models still to be loaded."""

    slots: int
    slot_bytes: int
    free_bytes: int
    total_bytes: int
    others: int = 0
    others_bytes: int = 0

    def describe(self, model: str, device: str) -> str:
        """One log line."""
        bound = f"at most {MOST_SLOTS}" if self.slots == MOST_SLOTS else "as many as fit"
        others = ""
        if self.others:
            plural = "s" * (self.others > 1)
            others = f", {self.others} more model{plural} to load ({format_bytes(self.others_bytes)} of weights)"
        return (
            f"{model}: {self.slots} slots of {self.slot_bytes / MIB:.2f} MiB on {device}"
            f" ({format_bytes(self.slots * self.slot_bytes)}); {format_bytes(self.free_bytes)} free,"
            f" {RESERVE:.0%} of {format_bytes(self.total_bytes)} kept in reserve{others}, {bound}"
        )


def choose_slots(
    model: str,
    device: str,
    *,
    slot_bytes: int,
    free_bytes: int,
    total_bytes: int,
    least: int = LEAST_SLOTS,
    others: int = 0,
    others_bytes: int = 0,
) -> SlotBudget:
    """Slots in multiples of 8 between `least` and MOST_SLOTS from an equal share of the free memory: of this model and
    each of the `others` that are still to be loaded. A share that is too small is exceeded up to the least, which may
    refuse a later model. Raises NoRoom."""
    room = free_bytes - int(RESERVE * total_bytes)
    share = (room - others_bytes) // (1 + others)
    slots = min(MOST_SLOTS, max(0, share) // slot_bytes // 8 * 8)
    if slots < least:
        slots = least
        if least * slot_bytes > room:
            raise NoRoom(
                f"{model} needs {least} slots of {slot_bytes / MIB:.2f} MiB on {device}, which has"
                f" {format_bytes(max(0, room))} for them ({format_bytes(free_bytes)} free, {RESERVE:.0%} of"
                f" {format_bytes(total_bytes)} kept in reserve): unload another model, end what else runs on this GPU,"
                " or use a larger one."
            )
    return SlotBudget(slots, slot_bytes, free_bytes, total_bytes, others, others_bytes)


def format_bytes(size_bytes: int) -> str:
    """Such as "824 MiB" or "4.6 GiB"."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / MIB:.0f} MiB"
