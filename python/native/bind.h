// SPDX-License-Identifier: MIT
// The border to Python.
#ifndef NPU_PYTHON_BIND_H
#define NPU_PYTHON_BIND_H

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python/native/lock.h"
#include "python/native/tensor.h"

namespace npu::python {

void bind_device(pybind11::module_ &module);
void bind_tensor(pybind11::module_ &module);
void bind_runtime(pybind11::module_ &module);

/// numpy's type for elements; bfloat16, which it does not have, is the bits of uint16.
pybind11::dtype numpy_type(bm_data_type_t type);
pybind11::tuple shape_tuple(const Shape &shape);
/// The type of an array's elements. `where`, what is expected and the advice are for the text of an error.
bm_data_type_t type_of_array(const pybind11::array &array, const std::string &where, bm_data_type_t expected,
                             const std::string &advice = "");
/// What numpy can do about an array of numbers of another type; empty for types that it does not have.
std::string cast_advice(const pybind11::array &array, bm_data_type_t wanted);
/// A method for Python: a call without an object, as Tensor.flush(None), is a TypeError and not a null pointer.
template <class Answer, class Class>
auto method(Answer (Class::*function)()) {
  return [function](Class &self) { return (self.*function)(); };
}
template <class Answer, class Class>
auto method(Answer (Class::*function)() const) {
  return [function](const Class &self) { return (self.*function)(); };
}
/// A text of the runtime's, where names are any bytes: those that are not UTF-8 as \xNN.
pybind11::str text_of(const std::string &bytes);
/// Arguments of Python's; what they are called is for the text of a TypeError.
int64_t integer_argument(const pybind11::handle &value, const std::string &where);
/// A sequence of integers, or one integer for one dimension.
Shape shape_argument(const pybind11::handle &value, const std::string &where);
/// A type's name, or what numpy takes for its dtype: numpy.float32, numpy.dtype("float32").
bm_data_type_t dtype_argument(const pybind11::handle &value, const std::string &where);
std::string name_argument(const pybind11::handle &value, const std::string &where);
pybind11::array array_argument(const pybind11::handle &value, const std::string &where);
/// Throws unless elements lie one behind the other, row by row, in this machine's byte order.
void check_dense(const pybind11::array &array, const std::string &where);

}  // namespace npu::python

#endif  // NPU_PYTHON_BIND_H
