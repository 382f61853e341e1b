// SPDX-License-Identifier: MIT
// The C++ interface, over the C one. Layouts are those that programs were compiled with: tests/abi has them.
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "bmruntime_cpp.h"
#include "runtime/launch/api/guard.h"
#include "runtime/launch/model/quant.h"

namespace bmruntime {

namespace {

using npurt::guarded;
using npurt::Status;

/// What a Context's runtime_ points to.
struct Body {
  void *runtime = nullptr;
  bool owns_handle = false;
  ~Body() { bmrt_destroy(runtime); }
};

Body *body(void *p) { return static_cast<Body *>(p); }

/// The runtime of a Context, NULL if it has none: the C interface says so.
void *runtime_of(void *p) { return p ? body(p)->runtime : nullptr; }

Body *make_body(bm_handle_t handle, bool owns_handle) {
  std::unique_ptr<Body> b;
  guarded("Context", [&]() -> Status {
    b = std::make_unique<Body>();
    return {};
  });
  if (!b) return nullptr;
  b->owns_handle = owns_handle;
  b->runtime = bmrt_create(handle);
  return b.release();
}

/// guarded() for functions with a status.
template <class F>
bm_status_t status_of(const char *function, bm_status_t failure, F f) {
  return guarded(function, f) ? BM_SUCCESS : failure;
}

Tensor *find(const std::vector<Tensor *> &tensors, const char *const *names, const char *name) {
  for (size_t i = 0; name && i < tensors.size(); ++i)
    if (std::strcmp(names[i], name) == 0) return tensors[i];
  return nullptr;
}

}  // namespace

size_t ByteSize(bm_data_type_t type) { return bmrt_data_type_size(type); }
size_t ByteSize(const bm_device_mem_t &device_mem) { return bm_mem_get_device_size(device_mem); }
size_t ByteSize(const bm_tensor_t &tensor) { return bmrt_tensor_bytesize(&tensor); }
size_t ByteSize(const Tensor &tensor) { return tensor.ByteSize(); }
uint64_t Count(const bm_shape_t &shape) { return bmrt_shape_count(&shape); }
uint64_t Count(const bm_tensor_t &tensor) { return bmrt_shape_count(&tensor.shape); }
uint64_t Count(const Tensor &tensor) { return tensor.num_elements(); }
bool IsSameShape(const bm_shape_t &left, const bm_shape_t &right) { return bmrt_shape_is_same(&left, &right); }

// ---- Context ----

Context::Context(int devid) : runtime_(nullptr), handle_(nullptr) {
  if (status_of("Context", BM_ERR_DEVNOTREADY, [&]() -> Status {
        return bm_dev_request(&handle_, devid) == BM_SUCCESS ? Status() : npurt::npu_error();
      }) != BM_SUCCESS)
    handle_ = nullptr;
  else
    runtime_ = make_body(handle_, true);
}

Context::Context(bm_handle_t bm_handle) : runtime_(make_body(bm_handle, false)), handle_(bm_handle) {}

Context::~Context() {
  const bool owns_handle = handle_ && runtime_ && body(runtime_)->owns_handle;
  delete body(runtime_);
  if (owns_handle) bm_dev_free(handle_);
}

bm_status_t Context::load_bmodel(const void *bmodel_data, size_t size) {
  return bmrt_load_bmodel_data(runtime_of(runtime_), bmodel_data, size) ? BM_SUCCESS : BM_ERR_DATA;
}

bm_status_t Context::load_bmodel(const char *bmodel_file) {
  return bmrt_load_bmodel(runtime_of(runtime_), bmodel_file) ? BM_SUCCESS : BM_ERR_DATA;
}

int Context::get_network_number() const { return bmrt_get_network_number(runtime_of(runtime_)); }

void Context::get_network_names(std::vector<const char *> *names) const {
  guarded("Context::get_network_names", runtime_of(runtime_), [&](npurt::Runtime &r) -> Status {
    if (!names) return Status::error("null pointer instead of a vector");
    names->clear();
    for (const npurt::Network *n : r.networks()) names->push_back(n->name().c_str());
    return {};
  });
}

const bm_net_info_t *Context::get_network_info(const char *net_name) const {
  return bmrt_get_network_info(runtime_of(runtime_), net_name);
}

bm_handle_t Context::handle() const { return runtime_of(runtime_) ? handle_ : nullptr; }

void Context::trace() const { bmrt_trace(runtime_of(runtime_)); }

// ---- Network ----

Network::Network(const Context &ctx, const char *net_name, int stage_id)
    : context_(&ctx), info_(ctx.get_network_info(net_name)), input_tensors_(nullptr), output_tensors_(nullptr) {
  if (!info_) return;
  const bool made = guarded("Network", [&]() -> Status {
    if (stage_id < -1 || stage_id >= info_->stage_num)
      return Status::error("network '" + std::string(net_name) + "' has stages 0 to " +
                           std::to_string(info_->stage_num - 1) + ", not " + std::to_string(stage_id));
    const bool fixed = stage_id >= 0, known = fixed || info_->stage_num == 1;
    const bm_stage_info_t &stage = info_->stages[fixed ? stage_id : 0];
    const auto make = [&](int number, const bm_data_type_t *types, const bm_shape_t *shapes, const size_t *bytes,
                          bool input, bm_tensor_t *&list, std::vector<Tensor *> &tensors) -> Status {
      list = new bm_tensor_t[static_cast<size_t>(number)]{};
      tensors.reserve(static_cast<size_t>(number));
      for (int i = 0; i < number; ++i) {
        list[i].dtype = types[i];
        list[i].shape = shapes[i];
        tensors.push_back(new Tensor(ctx.handle_, &list[i], input && !fixed));
        tensors.back()->has_shape_ = known || !input;
        bmrt_quant_t quant{};
        (input ? bmrt_get_input_quant : bmrt_get_output_quant)(runtime_of(ctx.runtime_), net_name, i, &quant);
        tensors.back()->step_ = quant.step;
        tensors.back()->zero_point_ = quant.zero_point;
        if (bm_malloc_device_byte(ctx.handle_, &list[i].device_mem, static_cast<unsigned int>(bytes[i])) != BM_SUCCESS)
          return Status::error("network '" + std::string(net_name) + "': " + npu_last_error());
        tensors.back()->user_mem_ = false;
      }
      return {};
    };
    NPU_TRY(make(info_->input_num, info_->input_dtypes, stage.input_shapes, info_->max_input_bytes, true,
                 input_tensors_, inputs_));
    return make(info_->output_num, info_->output_dtypes, stage.output_shapes, info_->max_output_bytes, false,
                output_tensors_, outputs_);
  });
  if (made) return;
  for (auto *tensors : {&inputs_, &outputs_}) {
    for (Tensor *t : *tensors) delete t;
    tensors->clear();
  }
  info_ = nullptr;
}

// Device memory of launches that are still running goes when they have finished.
Network::~Network() {
  for (const auto *tensors : {&inputs_, &outputs_})
    for (Tensor *t : *tensors) delete t;
  delete[] input_tensors_;
  delete[] output_tensors_;
}

bm_status_t Network::Forward(bool sync) const {
  const bool ready = guarded("Network::Forward", [&]() -> Status {
    if (!info_) return Status::error("the network could not be made");
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!inputs_[i]->has_shape_)
        return Status::error("network '" + std::string(info_->name) + "' input " + std::to_string(i) + " ('" +
                             info_->input_names[i] + "') has no shape: the network has " +
                             std::to_string(info_->stage_num) + " stages, call Reshape first");
    return {};
  });
  if (!ready) return BM_ERR_PARAM;
  if (!bmrt_launch_tensor_ex(runtime_of(context_->runtime_), info_->name, input_tensors_, info_->input_num,
                             output_tensors_, info_->output_num, true, true))
    return BM_ERR_FAILURE;
  return sync ? bm_thread_sync(context_->handle_) : BM_SUCCESS;
}

const std::vector<Tensor *> &Network::Inputs() { return inputs_; }
const std::vector<Tensor *> &Network::Outputs() { return outputs_; }
Tensor *Network::Input(const char *tensor_name) {
  return info_ ? find(inputs_, info_->input_names, tensor_name) : nullptr;
}
Tensor *Network::Output(const char *tensor_name) {
  return info_ ? find(outputs_, info_->output_names, tensor_name) : nullptr;
}
const bm_net_info_t *Network::info() const { return info_; }

// ---- Tensor ----

// Its memory is not its own before the network has allocated some.
Tensor::Tensor(bm_handle_t handle, bm_tensor_t *tensor, bool can_reshape)
    : user_mem_(true),
      step_(1),
      handle_(handle),
      tensor_(tensor),
      can_reshape_(can_reshape),
      has_shape_(false),
      zero_point_(0) {}

Tensor::~Tensor() {
  if (!user_mem_) bm_free_device(handle_, tensor_->device_mem);
}

namespace {

/// Bytes that a tensor takes in memory: where batches share words, and are filled up, more than its elements.
size_t stored_size(const bm_tensor_t &t) {
  const bool known = npu::bmodel::store_lanes(t.st_mode, t.dtype);
  return known ? npurt::stored_bytes(t.dtype, t.shape, t.st_mode) : bmrt_tensor_bytesize(&t);
}

/// Larger memory of a network's own for a tensor that has become larger. Without it Forward says what is missing.
void make_room(bm_handle_t handle, bm_tensor_t &t) {
  const size_t bytes = stored_size(t);
  bm_device_mem_t more;
  if (bytes <= bm_mem_get_device_size(t.device_mem) || bytes > 0xffffffffu) return;
  if (bm_malloc_device_byte(handle, &more, static_cast<unsigned int>(bytes)) != BM_SUCCESS) return;
  bm_free_device(handle, std::exchange(t.device_mem, more));
}

/// Copies of a part of a tensor: inside it, and of a size that BMLIB takes.
Status check_range(const void *data, size_t size, uint64_t offset, size_t bytes) {
  if (!data) return Status::error("null pointer");
  if (offset > bytes || size > bytes - offset || size > 0xffffffffu || offset > 0xffffffffu)
    return Status::error(std::to_string(size) + " bytes from " + std::to_string(offset) + " on, the tensor has " +
                         std::to_string(bytes));
  return {};
}

}  // namespace

bm_status_t Tensor::CopyTo(void *data) const { return CopyTo(data, ByteSize()); }

bm_status_t Tensor::CopyTo(void *data, size_t size, uint64_t offset) const {
  const bool ok =
      guarded("Tensor::CopyTo", [&]() -> Status { return check_range(data, size, offset, stored_size(*tensor_)); });
  if (!ok) return BM_ERR_PARAM;
  return size ? bm_memcpy_d2s_partial_offset(handle_, data, tensor_->device_mem, static_cast<unsigned int>(size),
                                             static_cast<unsigned int>(offset))
              : BM_SUCCESS;
}

bm_status_t Tensor::CopyFrom(const void *data) { return CopyFrom(data, ByteSize()); }

bm_status_t Tensor::CopyFrom(const void *data, size_t size, uint64_t offset) {
  const bool ok =
      guarded("Tensor::CopyFrom", [&]() -> Status { return check_range(data, size, offset, stored_size(*tensor_)); });
  if (!ok) return BM_ERR_PARAM;
  return size ? bm_memcpy_s2d_partial_offset(handle_, tensor_->device_mem, const_cast<void *>(data),
                                             static_cast<unsigned int>(size), static_cast<unsigned int>(offset))
              : BM_SUCCESS;
}

namespace {

Status check_converted(const void *data, const bm_tensor_t &t) {
  if (!data) return Status::error("null pointer");
  if (t.st_mode != BM_STORE_1N)
    return Status::error(std::string("the tensor is in ") + npu::bmodel::store_mode_name(t.st_mode) +
                         ", only BM_STORE_1N is converted");
  return {};
}

}  // namespace

bm_status_t Tensor::CopyToFloat(float *data) const {
  constexpr const char *kName = "Tensor::CopyToFloat";
  if (!guarded(kName, [&] { return check_converted(data, *tensor_); })) return BM_ERR_PARAM;
  return status_of(kName, BM_ERR_FAILURE, [&]() -> Status {
    std::vector<uint8_t> elements(ByteSize());
    if (bm_memcpy_d2s_partial(handle_, elements.data(), tensor_->device_mem,
                              static_cast<unsigned int>(elements.size())) != BM_SUCCESS)
      return npurt::npu_error();
    return npurt::dequantize({tensor_->dtype, step_, zero_point_}, elements.data(), num_elements(), data);
  });
}

bm_status_t Tensor::CopyFromFloat(const float *data) {
  constexpr const char *kName = "Tensor::CopyFromFloat";
  if (!guarded(kName, [&] { return check_converted(data, *tensor_); })) return BM_ERR_PARAM;
  return status_of(kName, BM_ERR_FAILURE, [&]() -> Status {
    std::vector<uint8_t> elements(ByteSize());
    NPU_TRY(npurt::quantize({tensor_->dtype, step_, zero_point_}, data, num_elements(), elements.data()));
    return bm_memcpy_s2d_partial(handle_, tensor_->device_mem, elements.data(),
                                 static_cast<unsigned int>(elements.size())) == BM_SUCCESS
               ? Status()
               : npurt::npu_error();
  });
}

bm_status_t Tensor::Reshape(const bm_shape_t &shape) {
  return status_of("Tensor::Reshape", BM_ERR_PARAM, [&]() -> Status {
    if (!can_reshape_)
      return Status::error("the tensor's shape is fixed: it is an output, or its network has a fixed stage");
    bm_tensor_t wanted = *tensor_;
    wanted.shape = shape;
    if (shape.num_dims < 0 || shape.num_dims > BM_MAX_DIMS_NUM)
      return Status::error(std::to_string(shape.num_dims) + " dims, at most 8 are possible");
    if (!user_mem_ && wanted.st_mode != BM_STORE_1N) make_room(handle_, wanted);
    tensor_->device_mem = wanted.device_mem;
    const size_t bytes = stored_size(wanted), room = bm_mem_get_device_size(wanted.device_mem);
    if (bytes > room)
      return Status::error("a shape of " + std::to_string(bytes) + " bytes, the device memory has " +
                           std::to_string(room));
    tensor_->shape = shape;
    has_shape_ = true;
    return {};
  });
}

size_t Tensor::ByteSize() const { return bmrt_tensor_bytesize(tensor_); }
uint64_t Tensor::num_elements() const { return bmrt_shape_count(&tensor_->shape); }
const bm_tensor_t *Tensor::tensor() const { return tensor_; }
void Tensor::set_store_mode(bm_store_mode_t mode) const {
  tensor_->st_mode = mode;
  if (!user_mem_) make_room(handle_, *tensor_);
}

bm_status_t Tensor::set_device_mem(const bm_device_mem_t &device_mem) {
  return status_of("Tensor::set_device_mem", BM_ERR_PARAM, [&]() -> Status {
    const unsigned int bytes = bm_mem_get_device_size(device_mem);
    if (has_shape_ && bytes < ByteSize())
      return Status::error("device memory of " + std::to_string(bytes) + " bytes, the tensor needs " +
                           std::to_string(ByteSize()));
    if (!user_mem_) bm_free_device(handle_, tensor_->device_mem);
    user_mem_ = true;
    tensor_->device_mem = device_mem;
    return {};
  });
}

}  // namespace bmruntime
