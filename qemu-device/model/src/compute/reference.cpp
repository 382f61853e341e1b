// SPDX-License-Identifier: MIT
// The reference back end: the definitions behind the interface.
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

const float *f32(const void *p) { return static_cast<const float *>(p); }
float *f32(void *p) { return static_cast<float *>(p); }

class Reference final : public Backend {
 public:
  const char *name() const override { return "reference"; }

  bool conv(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
            void *out) override {
    const void *w = wgt.fetch(wgt.arg);
    if (!w) return false;
    reference::conv(c, f32(in), w, bias, f32(psum), f32(out));
    return true;
  }
  bool matmul(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
              void *out) override {
    const void *b = wgt.fetch(wgt.arg);
    if (!b) return false;
    reference::matmul(c, f32(in), b, bias, f32(psum), f32(out));
    return true;
  }
  void pool(const npu_cmd_pool &c, const void *in, void *out) override { reference::pool(c, f32(in), f32(out)); }
  void eltwise(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    reference::eltwise(c, f32(a), f32(b), f32(out));
  }
  void unary(const npu_cmd_unary &c, const void *in, void *out) override { reference::unary(c, f32(in), f32(out)); }
  void softmax(const npu_cmd_softmax &c, const void *in, void *out) override {
    reference::softmax(c, f32(in), f32(out));
  }
  void forget(uint32_t) override {}
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<Reference>(); }

}  // namespace npu::model
