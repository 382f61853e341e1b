// SPDX-License-Identifier: MIT
// The old C API (bmruntime_legacy.h), over the new one.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bmruntime_legacy.h"
#include "runtime/launch/api/guard.h"
#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/model/quant.h"

using npurt::guarded;
using npurt::Network;
using npurt::Runtime;
using npurt::Side;
using npurt::Status;

namespace {

/// body(network) for the network that a program names or numbers.
template <class Body>
bool on_network(const char *function, void *p_bmrt, int net_idx, const char *net_name, Body body) {
  return guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    if (net_name && *net_name) {
      const Network *net;
      NPU_TRY(r.find(net_name, net));
      return body(r, *net);
    }
    const auto networks = r.networks();
    if (net_idx < 0 || static_cast<size_t>(net_idx) >= networks.size())
      return Status::error("network number " + std::to_string(net_idx) + " of " + std::to_string(networks.size()));
    return body(r, *networks[static_cast<size_t>(net_idx)]);
  });
}

/// The inputs or the outputs of a network.
struct Tensors {
  size_t count;
  const char *const *names;
  const bm_data_type_t *dtypes;
  const std::vector<npurt::TensorInfo> npurt::Stage::*of_stage;
  const char *what;
};

Tensors tensors_of(const Network &net, Side side) {
  const bm_net_info_t &info = *net.info();
  if (side == Side::Input)
    return {static_cast<size_t>(info.input_num), info.input_names, info.input_dtypes, &npurt::Stage::inputs, "input"};
  return {static_cast<size_t>(info.output_num), info.output_names, info.output_dtypes, &npurt::Stage::outputs,
          "output"};
}

/// A tensor's shape in the stage where it is largest.
const bm_shape_t &largest(const Network &net, const Tensors &tensors, size_t i) {
  const bm_shape_t *found = nullptr;
  for (const auto &stage : net.stages()) {
    const bm_shape_t &shape = ((*stage).*tensors.of_stage)[i].shape;
    if (!found || bmrt_shape_count(&shape) > bmrt_shape_count(found)) found = &shape;
  }
  return *found;  // a network has at least one stage
}

/// body(network, tensors, number) for a tensor of a name.
template <class Body>
bool on_tensor(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, const char *name,
               Body body) {
  return on_network(function, p_bmrt, net_idx, net_name, [&](Runtime &, const Network &net) -> Status {
    const Tensors tensors = tensors_of(net, side);
    std::string text =
        "network '" + net.name() + "' has no " + tensors.what + " '" + (name ? name : "(null)") + "'; it has:";
    for (size_t i = 0; i < tensors.count; ++i) {
      if (name && std::strcmp(tensors.names[i], name) == 0) return body(net, tensors, i);
      text += std::string(" '") + tensors.names[i] + "'";
    }
    return Status::error(text);
  });
}

bool names_of(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, int *number,
              const char ***names) {
  if (names) *names = nullptr;
  return on_network(function, p_bmrt, net_idx, net_name, [&](Runtime &, const Network &net) -> Status {
    if (!number || !names) return Status::error("null pointer instead of a place for number and names");
    const Tensors tensors = tensors_of(net, side);
    auto **list = static_cast<const char **>(std::calloc(std::max<size_t>(tensors.count, 1), sizeof(char *)));
    if (!list) return Status::error("out of system memory");
    std::copy_n(tensors.names, tensors.count, list);
    *number = static_cast<int>(tensors.count);
    *names = list;
    return {};
  });
}

int max_shape(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, const char *name,
              int *dims) {
  int number = -1;
  on_tensor(function, p_bmrt, net_idx, net_name, side, name,
            [&](const Network &net, const Tensors &tensors, size_t i) -> Status {
              if (!dims) return Status::error("null pointer instead of a place for the dims");
              const bm_shape_t &shape = largest(net, tensors, i);
              std::copy_n(shape.dims, shape.num_dims, dims);
              number = shape.num_dims;
              return {};
            });
  return number;
}

void max_nchw(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, const char *name,
              int *const (&out)[4]) {
  int dims[BM_MAX_DIMS_NUM];
  const int number = max_shape(function, p_bmrt, net_idx, net_name, side, name, dims);
  int nchw[4] = {};
  if (number >= 0) std::fill(nchw, nchw + 4, 1);
  for (int i = 0; i < number; ++i) nchw[std::min(i, 3)] *= dims[i];
  for (int i = 0; i < 4; ++i)
    if (out[i]) *out[i] = nchw[i];
}

int dtype_of(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, const char *name) {
  int dtype = -1;
  on_tensor(function, p_bmrt, net_idx, net_name, side, name,
            [&](const Network &, const Tensors &tensors, size_t i) -> Status {
              dtype = tensors.dtypes[i];
              return {};
            });
  return dtype;
}

int store_mode_of(const char *function, void *p_bmrt, int net_idx, const char *net_name, Side side, const char *name) {
  int mode = -1;
  on_tensor(function, p_bmrt, net_idx, net_name, side, name,
            [&](const Network &net, const Tensors &tensors, size_t i) -> Status {
              mode = ((*net.stages()[0]).*tensors.of_stage)[i].mode;
              return {};
            });
  return mode;
}

// ---- launches ----

/// What the old launches have in common.
struct Arguments {
  const void *inputs;  // bm_device_mem_t[], as the outputs
  int input_num;
  const void *outputs;
  int output_num;
  const int *in_stmode, *out_stmode;  // may be null
  bm_shape_t *output_shapes;          // may be null
};

Status check(const Network &net, const void *inputs, int input_num, const void *outputs, int output_num) {
  if (!inputs || !outputs) return Status::error("null pointer instead of tensors");
  return npurt::check_counts(net, static_cast<size_t>(std::max(input_num, 0)),
                             static_cast<size_t>(std::max(output_num, 0)));
}

/// launch(shapes of the inputs) for a network; `shapes_of` puts them into an array of the network's size.
template <class ShapesOf>
bool launch(const char *function, void *p_bmrt, int net_idx, const char *net_name, const Arguments &a,
            ShapesOf shapes_of) {
  return on_network(function, p_bmrt, net_idx, net_name, [&](Runtime &r, const Network &net) -> Status {
    NPU_TRY(check(net, a.inputs, a.input_num, a.outputs, a.output_num));
    std::vector<bm_shape_t> shapes(static_cast<size_t>(a.input_num));
    NPU_TRY(shapes_of(net, shapes));
    std::vector<bm_tensor_t> in, out;
    for (size_t i = 0; i < shapes.size(); ++i)
      in.push_back({net.info()->input_dtypes[i], shapes[i], static_cast<const bm_device_mem_t *>(a.inputs)[i],
                    static_cast<bm_store_mode_t>(a.in_stmode ? a.in_stmode[i] : BM_STORE_1N)});
    for (size_t i = 0; i < static_cast<size_t>(a.output_num); ++i)
      out.push_back({net.info()->output_dtypes[i],
                     {},
                     static_cast<const bm_device_mem_t *>(a.outputs)[i],
                     static_cast<bm_store_mode_t>(a.out_stmode ? a.out_stmode[i] : BM_STORE_1N)});
    npurt::LaunchOptions options;
    options.user_mem = true;
    options.user_stmode = a.out_stmode != nullptr;
    NPU_TRY(r.launch(net.name().c_str(), in, out, options));
    for (size_t i = 0; a.output_shapes && i < out.size(); ++i) a.output_shapes[i] = out[i].shape;
    return {};
  });
}

/// Heights and widths: one for all inputs (step 0), or one each (step 1).
bool launch_nhw(const char *function, void *p_bmrt, int net_idx, const char *net_name, const Arguments &a, int n,
                const int *h, const int *w, size_t step) {
  return launch(
      function, p_bmrt, net_idx, net_name, a, [&](const Network &net, std::vector<bm_shape_t> &shapes) -> Status {
        if (!h || !w) return Status::error("null pointer instead of heights or widths");
        for (size_t i = 0; i < shapes.size(); ++i) {
          shapes[i] = largest(net, tensors_of(net, Side::Input), i);
          if (shapes[i].num_dims != 4)
            return Status::error("network '" + net.name() + "' input " + std::to_string(i) + " has " +
                                 std::to_string(shapes[i].num_dims) + " dims, batch, height and width are of 4");
          shapes[i].dims[0] = n;
          shapes[i].dims[2] = h[i * step];
          shapes[i].dims[3] = w[i * step];
        }
        return {};
      });
}

bool launch_shape(const char *function, void *p_bmrt, int net_idx, const char *net_name, const Arguments &a,
                  const int *dims, const int *numbers) {
  return launch(function, p_bmrt, net_idx, net_name, a,
                [&](const Network &, std::vector<bm_shape_t> &shapes) -> Status {
                  if (!dims || !numbers) return Status::error("null pointer instead of shapes");
                  for (size_t i = 0; i < shapes.size(); ++i) {
                    if (dims[i] < 0 || dims[i] > BM_MAX_DIMS_NUM)
                      return Status::error("input " + std::to_string(i) + " has " + std::to_string(dims[i]) +
                                           " dims, at most 8 are possible");
                    bmrt_shape(&shapes[i], numbers, dims[i]);
                    numbers += dims[i];
                  }
                  return {};
                });
}

/// bm_status_t of an operation on the runtime's handle.
template <class Body>
int on_handle(const char *function, void *p_bmrt, Body body) {
  bm_status_t status = BM_ERR_PARAM;
  guarded(function, p_bmrt, [&](Runtime &r) -> Status {
    status = body(r.handle());
    return status == BM_SUCCESS ? Status() : npurt::npu_error();
  });
  return status;
}

}  // namespace

// ---- runtimes and models ----

void *create_bmrt_helper(void *pbm_handle, const char *, int devid) {
  if (pbm_handle) return bmrt_create(*static_cast<bm_handle_t *>(pbm_handle));
  std::unique_ptr<Runtime> out;
  guarded(__func__, [&]() -> Status {
    bm_handle_t handle = nullptr;
    if (bm_dev_request(&handle, devid) != BM_SUCCESS) return npurt::npu_error();
    const Status created = Runtime::create({&handle, 1}, out);
    if (out)
      out->own_handle();
    else
      bm_dev_free(handle);
    return created;
  });
  return out.release();
}

void destroy_bmruntime(void *p_bmrt) { bmrt_destroy(p_bmrt); }

bool bmrt_load_context(void *p_bmrt, const char *ctx_dir) {
  std::string file;
  return guarded(__func__,
                 [&]() -> Status {
                   if (!ctx_dir) return Status::error("null pointer instead of a directory");
                   file = std::string(ctx_dir) + "/compilation.bmodel";
                   return {};
                 }) &&
         bmrt_load_bmodel(p_bmrt, file.c_str());
}

// ---- questions about a network ----

bool bmrt_can_batch_size_change(void *p_bmrt, int net_idx, const char *net_name) {
  bool can = false;
  on_network(__func__, p_bmrt, net_idx, net_name, [&](Runtime &, const Network &net) -> Status {
    can = net.info()->is_dynamic;
    return {};
  });
  return can;
}

bool bmrt_can_height_and_width_change(void *p_bmrt, int net_idx, const char *net_name) {
  bool can = false;
  on_network(__func__, p_bmrt, net_idx, net_name, [&](Runtime &, const Network &net) -> Status {
    can = net.variants() != nullptr;
    return {};
  });
  return can;
}

bool bmrt_get_input_tensor(void *p_bmrt, int net_idx, const char *net_name, int *input_num, const char ***input_names) {
  return names_of(__func__, p_bmrt, net_idx, net_name, Side::Input, input_num, input_names);
}

bool bmrt_get_output_tensor(void *p_bmrt, int net_idx, const char *net_name, int *output_num,
                            const char ***output_names) {
  return names_of(__func__, p_bmrt, net_idx, net_name, Side::Output, output_num, output_names);
}

int bmrt_get_input_blob_max_shape(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                  int *shape) {
  return max_shape(__func__, p_bmrt, net_idx, net_name, Side::Input, tensor_name, shape);
}

int bmrt_get_output_blob_max_shape(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name,
                                   int *shape) {
  return max_shape(__func__, p_bmrt, net_idx, net_name, Side::Output, tensor_name, shape);
}

void bmrt_get_input_blob_max_nhw(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name, int *max_n,
                                 int *max_c, int *max_h, int *max_w) {
  max_nchw(__func__, p_bmrt, net_idx, net_name, Side::Input, tensor_name, {max_n, max_c, max_h, max_w});
}

void bmrt_get_output_blob_max_nhw(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name, int *max_n,
                                  int *max_c, int *max_h, int *max_w) {
  max_nchw(__func__, p_bmrt, net_idx, net_name, Side::Output, tensor_name, {max_n, max_c, max_h, max_w});
}

int bmrt_get_input_data_type(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name) {
  return dtype_of(__func__, p_bmrt, net_idx, net_name, Side::Input, tensor_name);
}

int bmrt_get_output_data_type(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name) {
  return dtype_of(__func__, p_bmrt, net_idx, net_name, Side::Output, tensor_name);
}

int bmrt_get_input_gmem_stmode(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name) {
  return store_mode_of(__func__, p_bmrt, net_idx, net_name, Side::Input, tensor_name);
}

int bmrt_get_output_gmem_stmode(void *p_bmrt, const char *tensor_name, int net_idx, const char *net_name) {
  return store_mode_of(__func__, p_bmrt, net_idx, net_name, Side::Output, tensor_name);
}

// ---- launching ----

bool bmrt_launch(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                 const void *output_tensors, int output_num, bm_shape_t *output_shapes) {
  return launch(__func__, p_bmrt, net_idx, net_name,
                {input_tensors, input_num, output_tensors, output_num, nullptr, nullptr, output_shapes},
                [](const Network &net, std::vector<bm_shape_t> &shapes) -> Status {
                  for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = net.stages()[0]->inputs[i].shape;
                  return {};
                });
}

bool bmrt_launch_nhw(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                     const void *output_tensors, int output_num, int n, int h, int w, bm_shape_t *output_shapes) {
  return launch_nhw(__func__, p_bmrt, net_idx, net_name,
                    {input_tensors, input_num, output_tensors, output_num, nullptr, nullptr, output_shapes}, n, &h, &w,
                    0);
}

bool bmrt_launch_nhw_stmode(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                            const void *output_tensors, int output_num, int n, int h, int w, int *in_stmode,
                            int *out_stmode, bm_shape_t *output_shapes) {
  return launch_nhw(__func__, p_bmrt, net_idx, net_name,
                    {input_tensors, input_num, output_tensors, output_num, in_stmode, out_stmode, output_shapes}, n, &h,
                    &w, 0);
}

bool bmrt_launch_nhw_stmode_multi_input(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors,
                                        int input_num, const void *output_tensors, int output_num, int n, int *h,
                                        int *w, int *in_stmode, int *out_stmode, bm_shape_t *output_shapes) {
  return launch_nhw(__func__, p_bmrt, net_idx, net_name,
                    {input_tensors, input_num, output_tensors, output_num, in_stmode, out_stmode, output_shapes}, n, h,
                    w, 1);
}

bool bmrt_launch_shape(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                       const int *input_dim, const int *input_shape, const void *output_tensors, int output_num,
                       bm_shape_t *output_shapes) {
  return launch_shape(__func__, p_bmrt, net_idx, net_name,
                      {input_tensors, input_num, output_tensors, output_num, nullptr, nullptr, output_shapes},
                      input_dim, input_shape);
}

bool bmrt_launch_shape_stmode(void *p_bmrt, int net_idx, const char *net_name, const void *input_tensors, int input_num,
                              const int *input_dim, const int *input_shape, const void *output_tensors, int output_num,
                              int *in_stmode, int *out_stmode, bm_shape_t *output_shapes) {
  return launch_shape(__func__, p_bmrt, net_idx, net_name,
                      {input_tensors, input_num, output_tensors, output_num, in_stmode, out_stmode, output_shapes},
                      input_dim, input_shape);
}

bool bmrt_launch_cpu_data(void *p_bmrt, int net_idx, const char *net_name, void *input_tensors, int input_num,
                          void *output_tensors, int output_num, const int *in_shape, bm_shape_t *out_shapes) {
  return on_network(__func__, p_bmrt, net_idx, net_name, [&](Runtime &r, const Network &net) -> Status {
    constexpr int kDims = 4;
    NPU_TRY(check(net, input_tensors, input_num, output_tensors, output_num));
    if (!in_shape) return Status::error("null pointer instead of shapes");
    const bm_net_info_t &info = *net.info();
    std::vector<bm_shape_t> shapes(static_cast<size_t>(input_num)), found(static_cast<size_t>(output_num));
    std::vector<void *> in, out;
    auto *place = static_cast<uint8_t *>(input_tensors);
    for (size_t i = 0; i < shapes.size(); ++i) {
      bmrt_shape(&shapes[i], in_shape + kDims * i, kDims);
      in.push_back(place);
      place += bmrt_shape_count(&shapes[i]) * bmrt_data_type_size(info.input_dtypes[i]);
    }
    place = static_cast<uint8_t *>(output_tensors);
    for (size_t i = 0; i < found.size(); ++i) {
      out.push_back(place);
      place += bmrt_shape_count(&largest(net, tensors_of(net, Side::Output), i)) *
               bmrt_data_type_size(info.output_dtypes[i]);
    }
    NPU_TRY(r.launch_data(net.name().c_str(), in, shapes, out, found, true, {}));
    if (out_shapes) std::copy(found.begin(), found.end(), out_shapes);
    return {};
  });
}

int bmrt_thread_sync(void *p_bmrt) {
  return on_handle(__func__, p_bmrt, [](bm_handle_t handle) { return bm_thread_sync(handle); });
}

// ---- memory ----

int bmrt_malloc_neuron_device(void *p_bmrt, bm_device_mem_t *pmem, int n, int c, int h, int w) {
  return on_handle(__func__, p_bmrt,
                   [&](bm_handle_t handle) { return bm_malloc_neuron_device(handle, pmem, n, c, h, w); });
}

int bmrt_malloc_device_byte(void *p_bmrt, bm_device_mem_t *pmem, unsigned int size) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_malloc_device_byte(handle, pmem, size); });
}

void bmrt_free_device(void *p_bmrt, bm_device_mem_t mem) {
  on_handle(__func__, p_bmrt, [&](bm_handle_t handle) {
    bm_free_device(handle, mem);  // logs what is wrong
    return BM_SUCCESS;
  });
}

int bmrt_memcpy_s2d(void *p_bmrt, bm_device_mem_t dst, void *src) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_memcpy_s2d(handle, dst, src); });
}

int bmrt_memcpy_s2d_withsize(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_memcpy_s2d_partial(handle, dst, src, size); });
}

int bmrt_memcpy_s2d_withsize_offset(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size,
                                    unsigned int dev_offset) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) {
    return bm_memcpy_s2d_partial_offset(handle, dst, src, size, dev_offset);
  });
}

int bmrt_memcpy_d2s(void *p_bmrt, void *dst, bm_device_mem_t src) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_memcpy_d2s(handle, dst, src); });
}

int bmrt_memcpy_d2s_withsize(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_memcpy_d2s_partial(handle, dst, src, size); });
}

int bmrt_memcpy_d2s_withsize_offset(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size,
                                    unsigned int dev_offset) {
  return on_handle(__func__, p_bmrt, [&](bm_handle_t handle) {
    return bm_memcpy_d2s_partial_offset(handle, dst, src, size, dev_offset);
  });
}

// ---- facts ----

int bmrt_dev_getcount(void *, int *dev_count) { return bm_dev_getcount(dev_count); }

void bmrt_get_last_api_process_time_us(void *p_bmrt, uint64_t *time_us) {
  on_handle(__func__, p_bmrt, [&](bm_handle_t handle) { return bm_get_last_api_process_time_us(handle, time_us); });
}
