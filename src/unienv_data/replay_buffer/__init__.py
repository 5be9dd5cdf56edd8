"""Ring and growing buffers of samples over any storage."""

from unienv_data.replay_buffer.replay_buffer import ReplayBuffer, index_with_offset

__all__ = ["ReplayBuffer", "index_with_offset"]
