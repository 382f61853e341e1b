# SPDX-License-Identifier: MIT
# The target onnx_proto of ONNX's package. Since ONNX 1.17 (Debian 13) the package's targets have a name space.
find_package(ONNX CONFIG REQUIRED)
if(NOT TARGET onnx_proto)
  add_library(onnx_proto INTERFACE IMPORTED)
  set_property(TARGET onnx_proto PROPERTY INTERFACE_LINK_LIBRARIES ONNX::onnx_proto)
endif()
