"""Plain data from one process to another, over a socket, so that nothing which arrives is ever executed.

Numbers, texts, arrays, tensors, and lists, tuples and dicts of them: as JSON, with the bytes of arrays behind it. An
object of any other class stays where it is, so it cannot claim over here to equal everything.
"""

import json
import re
import struct
import sys
import time

import numpy as np

LARGEST = 256 * 2**20  # bytes of one message
FLAT = {"b", "i", "u", "f", "c", "U", "S"}  # kinds of arrays that hold no objects
FLAT_TYPE = re.compile(r"[<>|=]?[biufcUS]\d+")
TENSOR_TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
FRAME = struct.Struct("!II")  # bytes of the JSON, number of arrays
LENGTH = struct.Struct("!Q")


class Wire:
    """One end of the connection. A message is any plain value.

    offered: the functions among what this end sent, in the order they went. None where it may send no function.
    stub: from the place of a function that the other end offered to what stands for it here.
    """

    def __init__(self, socket, offered=None, stub=None):
        self._socket, self.offered, self._stub = socket, offered, stub

    def send(self, value, deadline=None):
        """Send a value. Raises TypeError, with one sentence, for what is no plain data."""
        text, arrays = pack(value, self.offered)
        parts = [FRAME.pack(len(text), len(arrays)), text]
        for array in arrays:
            parts += [LENGTH.pack(len(array)), array]
        self._wait_until(deadline)
        for part in parts:
            self._socket.sendall(part)

    def receive(self, deadline=None):
        """The next value.

        deadline: on time.monotonic. Raises TimeoutError when it has passed, ConnectionError when the other side is
        gone, ValueError when what came is no message.
        """
        size, count = FRAME.unpack(self._read(FRAME.size, deadline))
        text, room = self._read(size, deadline), LARGEST
        arrays = []
        for _ in range(count):
            (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
            room -= length
            if room < 0:
                raise ValueError(f"it is larger than {LARGEST // 2**20} MiB")
            arrays.append(self._read(length, deadline))
        try:
            return unpack(text, arrays, self._stub)
        except Exception as problem:
            raise ValueError(f"it cannot be read: {problem}") from None

    def close(self):
        """Close this end."""
        self._socket.close()

    def _read(self, size, deadline):
        if size > LARGEST:
            raise ValueError(f"it is larger than {LARGEST // 2**20} MiB")
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            self._wait_until(deadline)
            got = self._socket.recv_into(rest)
            if not got:
                raise ConnectionError("the other side is gone")
            rest = rest[got:]
        return data

    def _wait_until(self, deadline):
        if deadline is None:
            self._socket.settimeout(None)
        else:
            self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))


def pack(value, offered=None):
    """(JSON, the bytes of each array in it). Raises TypeError, with one sentence, for what is no plain data.

    offered: a list to which the functions met are added; without it there may be none.
    """
    arrays = []
    return json.dumps(_packed(value, arrays, offered)).encode(), arrays


def unpack(text, arrays, stub=None):
    """The value that was packed. Raises some exception where nobody can have packed it."""
    return _unpacked(json.loads(text.decode()), arrays, stub)


def _packed(value, arrays, offered):
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_packed(item, arrays, offered) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, arrays, offered) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_packed(half, arrays, offered) for half in item] for item in value.items()]}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in FLAT:
        name = "array" if isinstance(value, np.ndarray) else "number"
        arrays.append(value.tobytes())
        return {name: [value.dtype.str, list(value.shape), len(arrays) - 1]}
    torch = sys.modules.get("torch")  # without torch nobody has a tensor
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        if name in TENSOR_TYPES and value.layout is torch.strided:
            flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            arrays.append(flat.numpy().tobytes())
            return {"tensor": [name, list(value.shape), len(arrays) - 1]}
    if callable(value) and offered is not None:
        offered.append(value)
        return {"function": len(offered) - 1}
    raise TypeError(f"an object of the class {kind.__name__} cannot be graded: give numbers, texts, arrays or tensors")


def _unpacked(tree, arrays, stub):
    if isinstance(tree, list):
        return [_unpacked(item, arrays, stub) for item in tree]
    if not isinstance(tree, dict):
        return tree
    [(name, content)] = tree.items()
    if name == "tuple":
        return tuple(_unpacked(item, arrays, stub) for item in content)
    if name == "dict":
        return {_unpacked(key, arrays, stub): _unpacked(item, arrays, stub) for key, item in content}
    if name == "complex":
        return complex(*content)
    if name == "function":
        return stub(content)
    dtype, shape, place = content
    if name == "tensor":
        return _tensor(dtype, shape, arrays[place])
    if not FLAT_TYPE.fullmatch(dtype):
        raise ValueError(f"there are no arrays of {dtype} here")
    array = np.frombuffer(arrays[place], dtype=dtype).reshape(shape)
    return array if name == "array" else array[()]


def _tensor(dtype, shape, data):
    import torch

    if dtype not in TENSOR_TYPES:
        raise ValueError(f"there are no tensors of {dtype} here")
    if not data:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(data, dtype=getattr(torch, dtype)).reshape(shape)
