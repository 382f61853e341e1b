// SPDX-License-Identifier: MIT
// qnpu._native: what the package qnpu is made of. Its functions are described there.
#include "python/native/bind.h"

PYBIND11_MODULE(_native, module) {
  using namespace npu::python;
  // Failures are exceptions, which carry the text; it does not go to standard error as well. NPU_LOG still shows what
  // libnpu has to say.
  bmlib_log_set_level(BMLIB_LOG_QUIET);
  bmrt_set_error_callback([](void *, const char *) {}, nullptr);
  static PyObject *const error = PyErr_NewExceptionWithDoc(
      "qnpu._native.Error", "What failed, where, and what was expected: the runtime's own text.", PyExc_RuntimeError,
      nullptr);
  if (!error) throw pybind11::error_already_set();
  module.add_object("Error", pybind11::reinterpret_borrow<pybind11::object>(error));
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure &failure) {
      PyErr_SetObject(error, text_of(failure.what()).ptr());
    }
  });
  module.def("end", &WithoutLock::end);
  module.def("forked", &WithoutLock::forked);
  bind_device(module);
  bind_tensor(module);
  bind_runtime(module);
}
