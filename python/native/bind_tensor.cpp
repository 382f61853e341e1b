// SPDX-License-Identifier: MIT
#include "python/native/bind.h"
#include "python/native/dlpack.h"

namespace py = pybind11;

namespace npu::python {

py::dtype numpy_type(bm_data_type_t type) { return py::dtype(type == BM_BFLOAT16 ? "uint16" : type_name(type)); }

bm_data_type_t type_of_array(const py::array &array, const std::string &where, bm_data_type_t expected,
                             const std::string &advice) {
  const auto name = py::str(py::object(array.dtype().attr("name"))).cast<std::string>();
  if (const auto type = find_type(name)) return *type;
  wrong_dtype(where, name, expected, advice);
}

std::string cast_advice(const py::array &array, bm_data_type_t wanted) {
  const char kind = array.dtype().kind();
  if (wanted == BM_BFLOAT16 || (kind != 'b' && kind != 'i' && kind != 'u' && kind != 'f')) return "";
  return "; x.astype(numpy." + type_name(wanted) + ") makes such an array of x";
}

void check_dense(const py::array &array, const std::string &where) {
  if (!py::bool_(array.dtype().attr("isnative")))
    throw Failure(where + ": dtype " + py::str(array.dtype().attr("str")).cast<std::string>() +
                  " has the byte order of other machines (big-endian), expected this machine's; x.astype(numpy." +
                  py::str(array.dtype().attr("name")).cast<std::string>() + ") makes such an array of x");
  if (!(array.flags() & py::array::c_style)) throw Failure(where + ": the array is not C-contiguous");
}

py::tuple shape_tuple(const Shape &shape) {
  py::tuple t(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) t[i] = shape[i];
  return t;
}

py::str text_of(const std::string &bytes) {
  PyObject *const text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "backslashreplace");
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

namespace {

[[noreturn]] void wrong_type(const py::handle &value, const std::string &where, const char *expected) {
  throw py::type_error(where + ": " + Py_TYPE(value.ptr())->tp_name + ", expected " + expected);
}

}  // namespace

int64_t integer_argument(const py::handle &value, const std::string &where) {
  if (!PyIndex_Check(value.ptr())) wrong_type(value, where, "an integer");
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const int64_t result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow) throw Failure(where + ": " + py::str(number).cast<std::string>() + ", expected at most 63 bits");
  return result;
}

Shape shape_argument(const py::handle &value, const std::string &where) {
  if (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr())) return {integer_argument(value, where)};
  if (!PySequence_Check(value.ptr()) || PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()))
    wrong_type(value, where, "an integer or a sequence of integers");
  Shape shape;
  for (const py::handle &dim : value) shape.push_back(integer_argument(dim, where));
  return shape;
}

bm_data_type_t dtype_argument(const py::handle &value, const std::string &where) {
  if (PyUnicode_Check(value.ptr()))
    if (const auto type = find_type(value.cast<std::string>())) return *type;
  if (value.is_none()) wrong_type(value, where, "a type such as 'float32' or numpy.float32");
  py::object type;
  try {
    type = py::dtype::from_args(py::reinterpret_borrow<py::object>(value));
  } catch (py::error_already_set &error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    if (PyUnicode_Check(value.ptr())) return type_of(value.cast<std::string>());
    wrong_type(value, where, "a type such as 'float32' or numpy.float32");
  }
  if (!py::bool_(type.attr("isnative")))
    throw Failure(where + ": " + py::str(type.attr("str")).cast<std::string>() +
                  " has the byte order of other machines (big-endian), expected this machine's");
  return type_of(py::str(type.attr("name")).cast<std::string>());
}

std::string name_argument(const py::handle &value, const std::string &where) {
  if (!PyUnicode_Check(value.ptr())) wrong_type(value, where, "a name (str)");
  return value.cast<std::string>();
}

py::array array_argument(const py::handle &value, const std::string &where) {
  if (!py::isinstance<py::array>(value)) wrong_type(value, where, "an array of numpy");
  return py::reinterpret_borrow<py::array>(value);
}

namespace {

DevicePtr device_argument(const py::handle &value, const std::string &where) {
  if (!py::isinstance<Device>(value)) wrong_type(value, where, "a qnpu.Device");
  return value.cast<DevicePtr>();
}

std::vector<py::ssize_t> strides_of(const Tensor &tensor) {
  std::vector<py::ssize_t> strides(tensor.shape().size());
  auto step = static_cast<py::ssize_t>(type_bytes(tensor.type()));
  for (size_t i = strides.size(); i-- > 0; step *= tensor.shape()[i]) strides[i] = step;
  return strides;
}

/// The letter of Python's module struct.
std::string format_of(bm_data_type_t type) { return std::string(1, numpy_type(type).char_()); }

py::buffer_info buffer_of(Tensor &tensor) {
  uint8_t *data;
  {
    const WithoutLock free;
    data = tensor.map();
  }
  const std::vector<py::ssize_t> shape(tensor.shape().begin(), tensor.shape().end());
  return {data,
          static_cast<py::ssize_t>(type_bytes(tensor.type())),
          format_of(tensor.type()),
          static_cast<py::ssize_t>(shape.size()),
          shape,
          strides_of(tensor)};
}

void check_array(const Tensor &tensor, const py::array &array, const char *what, const std::string &advice = "") {
  check_type(what, type_of_array(array, what, tensor.type(), advice), tensor.type(), advice);
  const Shape shape(array.shape(), array.shape() + array.ndim());
  if (shape != tensor.shape())
    throw Failure(std::string(what) + ": shape " + shape_text(shape) + ", expected " + shape_text(tensor.shape()));
  check_dense(array, what);
}

void copy_from(Tensor &tensor, const py::object &value) {
  const py::array array = array_argument(value, "copy_from");
  check_array(tensor, array, "copy_from", cast_advice(array, tensor.type()));
  const void *const data = array.data();
  const WithoutLock free;
  tensor.write(data);
}

void copy_to(const Tensor &tensor, const py::object &value) {
  py::array array = array_argument(value, "copy_to");
  check_array(tensor, array, "copy_to");
  if (!array.writeable()) throw Failure("copy_to: the array is read-only");
  void *const data = array.mutable_data();
  const WithoutLock free;
  tensor.read(data);
}

py::array to_numpy(const Tensor &tensor) {
  py::array array(numpy_type(tensor.type()), std::vector<py::ssize_t>(tensor.shape().begin(), tensor.shape().end()));
  void *const data = array.mutable_data();
  const WithoutLock free;
  tensor.read(data);
  return array;
}

// ---- DLPack ----

dlpack::DataType dlpack_type(bm_data_type_t type) {
  const std::string name = type_name(type);
  const dlpack::Code code = type == BM_BFLOAT16 ? dlpack::kBfloat
                            : name[0] == 'f'    ? dlpack::kFloat
                            : name[0] == 'u'    ? dlpack::kUint
                                                : dlpack::kInt;
  return {code, static_cast<uint8_t>(8 * type_bytes(type)), 1};
}

bm_data_type_t type_of_dlpack(dlpack::DataType type) {
  if (type.lanes == 1)
    for (const bm_data_type_t t :
         {BM_FLOAT32, BM_FLOAT16, BM_BFLOAT16, BM_INT8, BM_UINT8, BM_INT16, BM_UINT16, BM_INT32, BM_UINT32}) {
      const dlpack::DataType known = dlpack_type(t);
      if (known.code == type.code && known.bits == type.bits) return t;
    }
  throw Failure("from_dlpack: elements of code " + std::to_string(type.code) + " with " + std::to_string(type.bits) +
                " bits and " + std::to_string(type.lanes) +
                " lanes: float32, float16, bfloat16 and integers of 8, 16 and 32 bits are expected");
}

/// What the receiver of a tensor holds until it calls the deleter, from any thread.
struct Lent {
  dlpack::ManagedTensor managed{};
  Tensor tensor;  // keeps memory and mapping
  Shape shape;
};

/// Of a capsule that nobody has taken.
void drop_capsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto *const managed = static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

py::object lend(Tensor &tensor, const py::object &stream) {
  if (!stream.is_none()) throw Failure("__dlpack__: a tensor in the process has no stream, expected None");
  auto lent = std::make_unique<Lent>(Lent{{}, tensor, tensor.shape()});
  {
    const WithoutLock free;
    lent->managed.tensor.data = tensor.map();
  }
  lent->managed.tensor.device_type = dlpack::kCpu;
  lent->managed.tensor.ndim = static_cast<int32_t>(lent->shape.size());
  lent->managed.tensor.dtype = dlpack_type(tensor.type());
  lent->managed.tensor.shape = lent->shape.data();
  lent->managed.manager = lent.get();
  lent->managed.deleter = [](dlpack::ManagedTensor *self) { delete static_cast<Lent *>(self->manager); };
  PyObject *const capsule = PyCapsule_New(&lent->managed, "dltensor", drop_capsule);
  if (!capsule) throw py::error_already_set();
  (void)lent.release();
  return py::reinterpret_steal<py::object>(capsule);
}

bool is_dense(const dlpack::DLTensor &t) {
  if (!t.strides) return true;
  int64_t step = 1;
  for (int32_t i = t.ndim; i-- > 0; step *= t.shape[i])
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
  return true;
}

/// A copy of another library's tensor on the device.
TensorPtr borrow(const py::object &capsule, const py::object &place) {
  const DevicePtr device = device_argument(place, "from_dlpack: device");
  auto *const managed = static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) {
    PyErr_Clear();
    throw Failure("from_dlpack: a capsule named 'dltensor' that nobody has taken is expected");
  }
  const dlpack::DLTensor &t = managed->tensor;
  if (t.device_type != dlpack::kCpu)
    throw Failure("from_dlpack: the tensor is on a device of type " + std::to_string(t.device_type) +
                  ", expected system memory (type 1)");
  if (!is_dense(t)) throw Failure("from_dlpack: the tensor is not C-contiguous");
  const WithoutLock free;
  auto tensor = std::make_shared<Tensor>(device, Shape(t.shape, t.shape + t.ndim), type_of_dlpack(t.dtype));
  tensor->write(static_cast<const uint8_t *>(t.data) + t.byte_offset);
  return tensor;
}

}  // namespace

void bind_tensor(py::module_ &module) {
  py::class_<Tensor, TensorPtr>(module, "Tensor", py::buffer_protocol(),
                                R"(A dense tensor in device memory, row-major. New ones are zero.

device: a qnpu.Device. shape: elements, outermost dimension first, at most 8 dimensions; a number for one dimension.
dtype: "float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", or numpy's type.

numpy.asarray(tensor) and numpy.from_dlpack(tensor) are its memory itself, mapped into the process, for as long as the
array lives; flush() after writing there, invalidate() before reading again. Launches do both for the tensors that they
are given. bfloat16 is uint16 in numpy. numpy() is a copy.)")
      .def(py::init([](const py::object &place, const py::object &dims, const py::object &dtype) {
             const DevicePtr device = device_argument(place, "Tensor: device");
             Shape shape = shape_argument(dims, "Tensor: shape");
             const bm_data_type_t type = dtype_argument(dtype, "Tensor: dtype");
             const WithoutLock free;  // not a guard of the call: pybind11 notes the object in it, which takes the lock
             return std::make_shared<Tensor>(device, std::move(shape), type);
           }),
           py::arg("device"), py::arg("shape"), py::arg("dtype"))
      .def_buffer(buffer_of)
      .def_property_readonly(
          "shape", [](const Tensor &t) { return shape_tuple(t.shape()); }, "Elements, outermost dimension first.")
      .def_property_readonly(
          "dtype", [](const Tensor &t) { return type_name(t.type()); }, "Name of the elements' type, as numpy's.")
      .def_property_readonly("nbytes", method(&Tensor::bytes), "Bytes of all elements.")
      .def_property_readonly("address", method(&Tensor::address), "Device address of the first byte.")
      .def_property_readonly(
          "device", [](const Tensor &t) { return t.memory()->device(); }, "Where its memory is.")
      .def("copy_from", copy_from, py::arg("array"),
           "Copies a C-contiguous array of the same type and shape to the device.")
      .def("copy_to", copy_to, py::arg("array"), "Copies into a C-contiguous array of the same type and shape.")
      .def("numpy", to_numpy, "A copy as a new array. Waits for launches that use the tensor.")
      .def(
          "view",
          [](const Tensor &t, const py::object &dims, const py::object &first, const py::object &dtype) {
            Shape shape = shape_argument(dims, "view: shape");
            const int64_t from = integer_argument(first, "view: first");
            if (from < 0) throw Failure("view: first: " + std::to_string(from) + ", expected 0 or more");
            std::optional<bm_data_type_t> type;
            if (!dtype.is_none()) type = dtype_argument(dtype, "view: dtype");
            return t.view(std::move(shape), static_cast<uint64_t>(from), type);
          },
          py::arg("shape"), py::arg("first") = 0, py::arg("dtype") = py::none(),
          "A tensor of another shape (and type) in the same memory, from so many elements of its type on.")
      .def("flush", method(&Tensor::flush), py::call_guard<WithoutLock>(),
           "The program has written through a view, the device is going to read.")
      .def("invalidate", method(&Tensor::invalidate), py::call_guard<WithoutLock>(),
           "The device has written, the program is going to read through a view.")
      .def("__dlpack__", lend, py::arg("stream") = py::none(), "Its memory, mapped, for other libraries.")
      .def(
          "__dlpack_device__", [](const Tensor &) { return py::make_tuple(dlpack::kCpu, 0); },
          "System memory: what is lent is mapped.")
      .def("__reduce__", [](const Tensor &) -> py::object {
        throw py::type_error(
            "a qnpu.Tensor cannot be pickled or copied: it is memory of a device. Pass tensor.numpy(), "
            "and make a tensor of that with qnpu.tensor(array, device)");
      });
  module.def("from_dlpack", borrow, py::arg("capsule"), py::arg("device"));
}

}  // namespace npu::python
