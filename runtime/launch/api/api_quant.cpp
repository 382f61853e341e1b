// SPDX-License-Identifier: MIT
// The C API: numbers of float32 and the elements that stand for them.
#include "runtime/launch/api/guard.h"
#include "runtime/launch/model/quant.h"

using npurt::guarded;
using npurt::Runtime;
using npurt::Side;
using npurt::Status;

namespace {

bool get_quant(const char *function, void *p_bmrt, const char *net_name, Side side, int index, bmrt_quant_t *quant) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    const npurt::Network *net;
    if (!quant) return Status::error("null pointer instead of a bmrt_quant_t");
    NPU_TRY(r.find(net_name, net));
    const npurt::Stage &stage = *net->stages()[0];
    const auto &tensors = side == Side::Input ? stage.inputs : stage.outputs;
    if (index < 0 || static_cast<size_t>(index) >= tensors.size())
      return Status::error("network '" + net->name() + "' has " + std::to_string(tensors.size()) +
                           (side == Side::Input ? " inputs" : " outputs") + ", there is no number " +
                           std::to_string(index));
    *quant = quant_of(tensors[static_cast<size_t>(index)], side);
    return {};
  });
}

}  // namespace

bool bmrt_get_input_quant(void *p_bmrt, const char *net_name, int index, bmrt_quant_t *quant) {
  return get_quant(__func__, p_bmrt, net_name, Side::Input, index, quant);
}

bool bmrt_get_output_quant(void *p_bmrt, const char *net_name, int index, bmrt_quant_t *quant) {
  return get_quant(__func__, p_bmrt, net_name, Side::Output, index, quant);
}

bool bmrt_quantize(const bmrt_quant_t *quant, const float *values, uint64_t count, void *elements) {
  return guarded(__func__, [&]() -> Status {
    return quant ? npurt::quantize(*quant, values, count, elements)
                 : Status::error("null pointer instead of a bmrt_quant_t");
  });
}

bool bmrt_dequantize(const bmrt_quant_t *quant, const void *elements, uint64_t count, float *values) {
  return guarded(__func__, [&]() -> Status {
    return quant ? npurt::dequantize(*quant, elements, count, values)
                 : Status::error("null pointer instead of a bmrt_quant_t");
  });
}
