// SPDX-License-Identifier: MIT
// Commands in the order of a sequential program. Waits and the regions of temporary storages are filled in later.
#ifndef NPU_COMPILER_EMITTER_H
#define NPU_COMPILER_EMITTER_H

#include "compiler/kernels/command.h"
#include "compiler/lowering/lowered.h"

namespace npu::compiler {

/// Numbers of regions until the final table is known.
inline constexpr uint8_t kRegionCoeff = 0;

/// The number of a storage that stands for the coefficients themselves; then base is an offset in them.
inline constexpr int kCoefficients = 1 << 30;

/// One end of a transfer: a storage in memory (then base is an offset in it) or local memory.
struct End {
  int storage = -1;
  graph::Dtype type = graph::Dtype::Undefined;
  int64_t base = 0;  ///< bytes
  Strides strides;   ///< elements
};

class Emitter {
 public:
  explicit Emitter(Coefficients &coeff) : coeff(coeff) {}

  /// A strided copy in as few commands as possible; the dimensions are listed in the order that costs memory least.
  void copy(const Shape &dims, const End &src, const End &dst);
  /// A number of the end's type: floating point, or of 8 bits.
  void fill(const Shape &dims, float value, const End &dst);

  template <class T>
  void tiu(T &cmd) {
    cmd.layer = layer;
    commands.push_back({cmd});
  }

  std::vector<Command> commands;
  Coefficients &coeff;
  uint32_t layer = 0;

 private:
  void push_copy(const Shape &dims, const End &src, const End &dst);
};

/// Sets act, act_a and act_b of a command.
template <class T>
void set_activation(T &cmd, const graph::Activation &act) {
  cmd.act = static_cast<uint8_t>(act.kind);
  cmd.act_a = act.a;
  cmd.act_b = act.b;
}

/// Sets scale and zero point of an operand: floating-point numbers have none; integers without quantisation stand for
/// themselves.
inline void set_number(uint8_t dtype, const graph::Quant &quant, float &scale, int32_t &zero) {
  const bool integer = dtype != NPU_DTYPE_F32 && dtype != NPU_DTYPE_F16 && dtype != NPU_DTYPE_BF16;
  scale = integer ? (quant.scale != 0 ? quant.scale : 1) : 0;
  zero = integer ? quant.zero : 0;
}

/// What a convolution or matrix multiply does with its sums: unless it is the first of an output, it begins with those
/// at local address `from`; the last one adds the bias (at `vectors` in the coefficients), multiplies, and activates.
template <class T, class Op>
void set_sums(T &cmd, const Op &op, uint32_t from, bool first, bool last, int64_t vectors) {
  if (op.quant.on) {
    cmd.in_zp = op.quant.x_zero;
    cmd.wgt_zp = op.quant.w_zero;
  }
  if (!first) {
    cmd.flags |= NPU_CONV_PSUM_IN;
    cmd.psum_addr = from;
  }
  if (!last) {
    cmd.flags |= NPU_CONV_PSUM_OUT;
    cmd.out_dtype = op.quant.on ? NPU_DTYPE_S32 : NPU_DTYPE_F32;
    return;
  }
  if (op.quant.on) cmd.out_zp = op.quant.out_zero;
  set_activation(cmd, op.act);
  if (!op.bias && !op.multiplier) return;
  if (op.bias) cmd.flags |= NPU_CONV_BIAS;
  if (op.multiplier) cmd.flags |= NPU_CONV_REQUANT;
  cmd.param_region = kRegionCoeff;
  cmd.param_offset = static_cast<uint64_t>(vectors);
}

/// Stores bias and multiplier of channels [first, first + count) as a command reads them; 0 where there are none.
int64_t append_vectors(Coefficients &coeff, const graph::TensorPtr &bias, const graph::TensorPtr &multiplier,
                       int64_t first, int64_t count);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_EMITTER_H
