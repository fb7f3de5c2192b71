"""Agents of an AMD machine as devices."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracekit.readers.rocprof.records import Agent
from tracekit.tables import DeviceProperties

_GPU = 2
# Heaps in the device's own memory, public and private.
_LOCAL_HEAPS = (1, 2)
_MAJOR, _MINOR = 10_000, 100


@dataclass(slots=True)
class Devices:
    """GPUs in order, and the GPU behind each agent's handle."""

    listed: list[DeviceProperties] = field(default_factory=list)
    by_handle: dict[int, int] = field(default_factory=dict)

    def add(self, agents: Iterable[Agent]) -> None:
        """Take the GPUs among some agents."""
        for agent in agents:
            if agent.type != _GPU:
                continue
            index = len(self.by_handle) if agent.logical_node_type_id is None else agent.logical_node_type_id
            self.by_handle[agent.id.handle] = index
            if all(device.index != index for device in self.listed):
                self.listed.append(as_device(agent, index))


def as_device(agent: Agent, index: int) -> DeviceProperties:
    """A GPU by product name, gfx target and compute units; Kineto's numbering of targets (gfx942 is 9.4)."""
    version = agent.gfx_target_version
    return DeviceProperties(
        index=index,
        name=agent.product_name.strip() or agent.name.strip() or None,
        compute_major=version // _MAJOR or None,
        compute_minor=version // _MINOR % _MINOR if version else None,
        sm_count=agent.cu_count or None,
        memory_bytes=sum(b.size_in_bytes for b in agent.mem_banks if b.heap_type in _LOCAL_HEAPS) or None,
    )
