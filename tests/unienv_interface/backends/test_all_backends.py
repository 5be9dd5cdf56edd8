"""What is true of every backend."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from unienv_interface import backends
from unienv_interface.backends import (
    ComputeBackend,
    NumpyComputeBackend,
    deserialize_backend,
    deserialize_dtype,
    get_backend_from_tensor,
    serialize_backend,
    serialize_dtype,
)
from unienv_interface.errors import BackendError, UnknownBackendError

ARRAY_API = [
    "asarray",
    "zeros",
    "ones_like",
    "zeros_like",
    "empty",
    "full",
    "arange",
    "reshape",
    "stack",
    "concat",
    "repeat",
    "roll",
    "where",
    "clip",
    "all",
    "any",
    "sum",
    "max",
    "min",
    "argmax",
    "argsort",
    "sort",
    "nonzero",
    "take",
    "take_along_axis",
    "unique_values",
    "cumulative_sum",
    "logical_and",
    "logical_or",
    "logical_not",
    "equal",
    "floor",
    "round",
    "isnan",
    "isclose",
    "minimum",
    "maximum",
    "broadcast_to",
    "broadcast_arrays",
    "broadcast_shapes",
    "permute_dims",
    "astype",
    "result_type",
    "can_cast",
    "iinfo",
    "finfo",
    "__array_namespace_info__",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int64",
    "bool",
]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.fixture(params=["numpy", "pytorch", "jax"])
def backend(request: pytest.FixtureRequest) -> Any:
    if request.param != "numpy":
        pytest.importorskip({"pytorch": "torch", "jax": "jax"}[request.param])
    return deserialize_backend(request.param)


def test_names_of_the_package() -> None:
    for name in backends.__all__:
        assert hasattr(backends, name)
    assert sorted(backends.__all__) == backends.__all__


@pytest.mark.parametrize("name", ARRAY_API)
def test_array_api(backend: Any, name: str) -> None:
    assert getattr(backend, name) is not None


def test_identity(backend: Any) -> None:
    assert serialize_backend(backend) == repr(backend) == backend.simplified_name
    assert deserialize_backend(backend.simplified_name) is backend
    assert pickle.loads(pickle.dumps(backend)) is backend
    assert issubclass(backend, ComputeBackend)
    assert backend.inf == float("inf")
    with pytest.raises(BackendError):
        backend()
    with pytest.raises(AttributeError, match="no_such_thing"):
        backend.no_such_thing  # noqa: B018
    assert ComputeBackend[Any, Any, Any, Any] is not None


def test_unknown_backend() -> None:
    with pytest.raises(ValueError, match="'cupy'"):
        deserialize_backend("cupy")
    with pytest.raises(UnknownBackendError):
        get_backend_from_tensor([1, 2])


def test_arrays_know_their_backend(backend: Any) -> None:
    array = backend.zeros((2,))
    assert get_backend_from_tensor(array) is backend
    assert backend.is_backendarray(array)
    assert isinstance(array, backend.ARRAY_TYPE)
    for other in (1, 1.0, [1], "a", None, np.float32(1)):
        assert not backend.is_backendarray(other)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_round_trip(backend: Any, name: str) -> None:
    dtype = deserialize_dtype(backend, name)
    assert serialize_dtype(backend, dtype) == name
    assert backend.dtype_is_real_integer(dtype) == (name.lstrip("u").startswith("int"))
    assert backend.dtype_is_real_floating(dtype) == name.startswith("float")
    assert backend.dtype_is_boolean(dtype) == (name == "bool")


def test_other_dtypes(backend: Any) -> None:
    assert serialize_dtype(backend, None) is None
    assert deserialize_dtype(backend, None) is None
    assert serialize_dtype(backend, bool) == "bool"
    assert serialize_dtype(backend, int) == "int64"
    assert serialize_dtype(backend, float) == "float64"
    with pytest.raises(ValueError, match="floaty"):
        deserialize_dtype(backend, "floaty")
    with pytest.raises(ValueError, match="str"):
        serialize_dtype(backend, str)
    for kind in (int, float, bool):
        families = [
            backend.dtype_is_real_integer(kind),
            backend.dtype_is_real_floating(kind),
            backend.dtype_is_boolean(kind),
        ]
        assert families == [kind is int, kind is float, kind is bool]
    assert not backend.dtype_is_real_integer(None)
    assert not backend.dtype_is_boolean(str)


def test_default_dtypes(backend: Any) -> None:
    assert backend.dtype_is_real_integer(backend.default_integer_dtype)
    assert backend.dtype_is_real_integer(backend.default_index_dtype)
    assert backend.dtype_is_real_floating(backend.default_floating_dtype)
    assert backend.dtype_is_boolean(backend.default_boolean_dtype)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0, 2)])
def test_numpy_and_back(backend: Any, shape: tuple[int, ...]) -> None:
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    array = backend.from_numpy(values)
    assert backend.is_backendarray(array)
    back = backend.to_numpy(array)
    assert isinstance(back, np.ndarray)
    assert back.dtype == np.float32
    assert back.shape == shape
    assert (back == values).all()
    assert backend.from_other_backend(backend, array) is array
    assert (
        backend.to_numpy(backend.from_other_backend(NumpyComputeBackend, values)) == values
    ).all()
    other = NumpyComputeBackend.from_other_backend(backend, array)
    assert isinstance(other, np.ndarray)


def test_awkward_numpy_arrays(backend: Any) -> None:
    values = np.arange(6, dtype=np.int32)
    for array in (values[::-1], values[::2], values.astype(">i4"), np.broadcast_to(values, (2, 6))):
        assert (backend.to_numpy(backend.from_numpy(array)) == array).all()
    frozen = values.copy()
    frozen.flags.writeable = False
    assert (backend.to_numpy(backend.from_numpy(frozen)) == values).all()


def test_devices(backend: Any) -> None:
    array = backend.zeros((2,))
    device = backend.device(array)
    assert backend.to_device(array, None) is array
    moved = backend.to_device(array, device)
    assert backend.device(moved) == device
    text = backend.serialize_device(device)
    assert backend.serialize_device(None) is None or backend.simplified_name == "numpy"
    assert backend.deserialize_device(text) in (device, None)
    assert backend.deserialize_device(None) is None


def test_numpy_has_one_device() -> None:
    with pytest.raises(ValueError, match="cuda"):
        NumpyComputeBackend.to_device(np.zeros(1), "cuda")


def test_indexed_update(backend: Any) -> None:
    array = backend.zeros((4,))
    changed = backend.at(array)[1:3].set(5)
    assert backend.to_numpy(changed).tolist() == [0, 5, 5, 0]
    changed = backend.at(changed)[0].add(2)
    assert backend.to_numpy(changed).tolist() == [2, 5, 5, 0]
    mask = changed == 5
    assert backend.to_numpy(backend.at(changed)[mask].set(1)).tolist() == [2, 1, 1, 0]


def test_indexed_update_in_place_unless_read_only() -> None:
    array = np.zeros(3)
    assert NumpyComputeBackend.at(array)[0].set(1) is array
    array.flags.writeable = False
    changed = NumpyComputeBackend.at(array)[1].set(1)
    assert changed.tolist() == [1, 1, 0]
    assert array.tolist() == [1, 0, 0]


def test_abbreviate(backend: Any) -> None:
    ones = backend.from_numpy(np.ones((2, 2), np.float32))
    assert backend.abbreviate_array(ones) == 1.0
    assert isinstance(backend.abbreviate_array(ones), float)
    assert backend.abbreviate_array(ones, try_cast_scalar=False) is ones
    mixed = backend.arange(3)
    assert backend.abbreviate_array(mixed) is mixed
    empty = backend.zeros((0, 2))
    assert backend.abbreviate_array(empty) is empty


def test_map_over_arrays(backend: Any) -> None:
    pair = collections.namedtuple("pair", "x y")  # noqa: PYI024

    @dataclasses.dataclass(frozen=True)
    class Held:
        array: Any
        name: str
        twice: Any = dataclasses.field(init=False, default=None)

    one = backend.from_numpy(np.ones(1, np.float32))
    held = Held(one, "h")
    object.__setattr__(held, "twice", one)
    grouped: collections.defaultdict[str, Any] = collections.defaultdict(list, {"k": one})
    data = {"a": [one, 3, "s"], "t": (one,), "p": pair(one, None), "h": held, "g": grouped}
    result = backend.map_fn_over_arrays(data, lambda x: x + 1)
    assert result["a"][0][0] == 2
    assert result["a"][1:] == [3, "s"]
    assert result["t"][0][0] == 2
    assert isinstance(result["p"], pair)
    assert result["h"].array[0] == result["h"].twice[0] == 2
    assert result["h"].name == "h"
    assert result["g"]["k"][0] == 2
    assert result["g"]["new"] == []
    assert one[0] == 1
    assert grouped["k"][0] == 1


def test_pad(backend: Any) -> None:
    array = backend.from_numpy(np.ones((2, 2), np.float32))
    padded = backend.pad_dim(array, 1, 3, 5)
    assert backend.to_numpy(padded).tolist() == [[1, 1, 5], [1, 1, 5]]
    assert backend.to_numpy(backend.pad_dim(array, -2, 3)).tolist() == [[1, 1], [1, 1], [0, 0]]
    assert padded.dtype == array.dtype
    assert backend.pad_dim(array, 0, 2) is array
    with pytest.raises(ValueError, match="axis 0"):
        backend.pad_dim(array, 0, 1)


@pytest.mark.parametrize("shape", [3, (), (2, 3), (0,)])
def test_random(backend: Any, shape: Any) -> None:
    random = backend.random
    rng = random.random_number_generator(7)
    axes = (shape,) if isinstance(shape, int) else shape
    f32 = deserialize_dtype(backend, "float32")
    draws: dict[str, Any] = {
        "discrete": lambda r: random.random_discrete_uniform(shape, 3, 5, rng=r),
        "uniform": lambda r: random.random_uniform(shape, rng=r, low=2.0, high=3.0),
        "normal": lambda r: random.random_normal(shape, rng=r, mean=1.0, std=2.0, dtype=f32),
        "exponential": lambda r: random.random_exponential(shape, rng=r, lambd=2.0),
        "geometric": lambda r: random.random_geometric(shape, p=0.5, rng=r),
    }
    values = {}
    for name, draw in draws.items():
        rng, array = draw(rng)
        assert backend.is_backendarray(array), name
        assert tuple(array.shape) == axes
        values[name] = backend.to_numpy(array)
    assert ((values["discrete"] >= 3) & (values["discrete"] < 5)).all()
    assert values["discrete"].dtype.kind == "i"
    assert ((values["uniform"] >= 2) & (values["uniform"] < 3)).all()
    assert values["normal"].dtype == np.float32
    assert (values["exponential"] >= 0).all()
    assert (values["geometric"] >= 1).all()


def test_random_is_repeatable(backend: Any) -> None:
    random = backend.random

    def twice(seed: int) -> list[Any]:
        rng = random.random_number_generator(seed)
        rng, a = random.random_uniform((4,), rng=rng)
        rng, b = random.random_permutation(5, rng=rng)
        return [backend.to_numpy(a).tolist(), backend.to_numpy(b).tolist()]

    assert twice(3) == twice(3)
    assert twice(3)[0] != twice(4)[0]
    assert sorted(twice(3)[1]) == [0, 1, 2, 3, 4]
    rng = random.random_number_generator()
    _, permuted = random.random_permutation(0, rng=rng)
    assert tuple(permuted.shape) == (0,)


def test_numpy_keeps_its_generator() -> None:
    rng = np.random.default_rng(0)
    again, _ = NumpyComputeBackend.random.random_uniform((2,), rng=rng)
    assert again is rng


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "float32"])
def test_random_discrete_dtypes(backend: Any, name: str) -> None:
    if backend.simplified_name == "jax" and name == "int64":
        pytest.skip("jax without its 64-bit mode")
    dtype = deserialize_dtype(backend, name)
    rng = backend.random.random_number_generator(0)
    _, array = backend.random.random_discrete_uniform((50,), 0, 3, rng=rng, dtype=dtype)
    assert array.dtype == dtype
    assert set(backend.to_numpy(array).tolist()) == {0, 1, 2}


def test_torch_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    backend = deserialize_backend("pytorch")
    assert backend.dtype_is_real_floating(torch.bfloat16)
    assert backend.to_numpy(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1, 1]
    assert backend.to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_jax_refuses_integers_it_would_wrap() -> None:
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("jax keeps 64 bits")
    backend = deserialize_backend("jax")
    with pytest.raises(BackendError, match="64-bit"):
        backend.from_numpy(np.array([2**40]))
    assert backend.from_numpy(np.array([7]))[0] == 7
