// SPDX-License-Identifier: MIT
// qnpu._native: what the package qnpu is made of. Its functions are described there.
#include "python/native/bind.h"

PYBIND11_MODULE(_native, module) {
  using namespace npu::python;
  // Failures are exceptions, which carry the text; it does not go to standard error as well. NPU_LOG still shows what
  // libnpu has to say.
  bmlib_log_set_level(BMLIB_LOG_QUIET);
  bmrt_set_error_callback([](void *, const char *) {}, nullptr);
  pybind11::register_exception<Failure>(module, "Error", PyExc_RuntimeError).doc() =
      "What failed, where, and what was expected: the runtime's own text.";
  module.def("end", &WithoutLock::end);
  module.def("forked", &WithoutLock::forked);
  bind_device(module);
  bind_tensor(module);
  bind_runtime(module);
}
