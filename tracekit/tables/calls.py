"""Runtime calls that several stages tell apart by name, in CUDA's, HIP's and oneAPI's spelling."""

GRAPH_LAUNCH = r"(?i)^(?:cuda|cu|hip)GraphLaunch"
"""Replays a graph: one call, many kernels."""

LAUNCH = r"(?i)launch|memcpy|memset|graph"
"""Puts work on a device."""

DEVICE_COPY = r"(?i)\bD(?:to|2)D\b|DeviceToDevice"
"""The name of a copy that stays on the device; a peer copy is another, and crosses a link."""

KERNEL_LAUNCH = r"(?i)launch(?:kernel|cooperative|_)|^(?:cuda|cu|hip)\w*launch"
"""Launches kernels, by itself or by a graph."""
