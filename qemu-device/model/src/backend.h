// SPDX-License-Identifier: MIT
// Interface between the chip's control (streams, checks, memory) and its arithmetic.
#ifndef NPU_MODEL_BACKEND_H
#define NPU_MODEL_BACKEND_H

#include <cstdint>
#include <memory>
#include <string>

#include "npu_isa.h"
#include "qemu-device/model/src/config.h"

namespace npu::model {

/// A read-only operand that may be streamed from memory: weights or B of MATMUL.
struct Streamed {
  /// Returns the operand's bytes in one piece, valid until the command ends, or nullptr when translation failed (then
  /// the back end returns false at once). `fetch` may copy; a back end that has a packed copy of constant data need not
  /// call it.
  const void *(*fetch)(void *arg);
  void *arg;
  uint64_t bytes;
  /// Constant (sealed) data has an identity: equal (asid, va, bytes) means equal contents until forget(asid). Otherwise
  /// constant is false.
  bool constant;
  uint32_t asid;
  uint64_t va;
  /// Operands with equal numbers other than 0 have equal contents, for the calling thread.
  uint64_t serial = 0;

  /// One whose bytes are at hand.
  static Streamed at(const void *data) {
    return {[](void *p) -> const void * { return p; }, const_cast<void *>(data), 0, false, 0, 0};
  }
};

/// Counts changes of Backend and Streamed and of what commands mean: a module of another build is refused.
inline constexpr uint32_t kBackendInterface = 6;

/// The vectors of a product, one element an output channel or column; null where the command has none. They may lie at
/// any byte.
struct ProductParams {
  const void *bias;        ///< f32, of 8-bit products s32
  const void *multiplier;  ///< f32

  ProductParams(const void *b = nullptr, const void *m = nullptr) : bias(b), multiplier(m) {}
};

/// Executes TIU commands whose fields, bounds and budget the control has already checked, and of which it has cut off
/// no more than a step's work (slices.hpp): nothing here looks at a stop. Operands are element-aligned; pitches and
/// strides are those of the command.
/// Thread-safe: one thread a core calls at the same time. Each call returns false only when a Streamed
/// operand could not be fetched.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char *name() const = 0;
  /// psum is nullptr without PSUM_IN; out may equal psum. Weights (or B) may lie at any byte.
  virtual bool run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                   const void *psum, void *out) = 0;
  virtual bool run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                   const void *psum, void *out) = 0;
  virtual void run(const npu_cmd_pool &c, const void *in, void *out) = 0;
  /// b is nullptr with B_IMM.
  virtual void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) = 0;
  virtual void run(const npu_cmd_unary &c, const void *in, void *out) = 0;
  virtual void run(const npu_cmd_softmax &c, const void *in, void *out) = 0;
  virtual void run(const npu_cmd_reduce &c, const void *in, void *out) = 0;
  /// Scale and bias are null where the command has none; they, tables and scales may lie at any byte.
  virtual void run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) = 0;
  virtual void run(const npu_cmd_lut &c, const void *in, const void *table, void *out) = 0;
  virtual void run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales,
                   void *out) = 0;
  virtual void run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) = 0;
  /// Drops every packed copy of that address space (kEveryIdentity: of all); when it returns no later call uses one.
  /// Never blocks for longer than a command.
  virtual void forget(uint32_t) {}
  /// Gives large buffers of the calling thread back.
  virtual void trim() {}
};

/// The definition of each command: plain loops, in compute/reference_*.cpp. No state, no allocation that outlives a
/// call.
class Reference : public Backend {
 public:
  const char *name() const override { return "reference"; }
  bool run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override;
  bool run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override;
  void run(const npu_cmd_pool &c, const void *in, void *out) override;
  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override;
  void run(const npu_cmd_unary &c, const void *in, void *out) override;
  void run(const npu_cmd_softmax &c, const void *in, void *out) override;
  void run(const npu_cmd_reduce &c, const void *in, void *out) override;
  void run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) override;
  void run(const npu_cmd_lut &c, const void *in, const void *table, void *out) override;
  void run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales, void *out) override;
  void run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) override;
};

/// oneDNN for CONV and MATMUL, the reference for the rest; nullptr with the reason in `why` when the shared object or
/// CPU cannot do it. Copies of constant operands that it keeps take at most `max_packed_bytes`.
std::unique_ptr<Backend> make_onednn_backend(std::string &why, uint64_t max_packed_bytes = uint64_t{1} << 30);
/// Runs both, compares each result within the documented bound, calls report(text) at the first difference of a
/// command; keeps the reference's result.
std::unique_ptr<Backend> make_shadow_backend(std::unique_ptr<Backend> fast, void (*report)(void *arg, const char *text),
                                             void *arg);

}  // namespace npu::model

#endif  // NPU_MODEL_BACKEND_H
