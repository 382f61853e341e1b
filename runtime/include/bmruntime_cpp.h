/* SPDX-License-Identifier: MIT */
#ifndef BMRUNTIME_CPP_H
#define BMRUNTIME_CPP_H

/*
 * BMRuntime, C++ interface (C++11 and later): a Context holds models, a Network runs one of their networks with
 * tensors of its own.
 *
 * Errors: functions return a bm_status_t other than BM_SUCCESS, or NULL; nothing throws. A Context or Network that
 * could not be made says so by each of its functions. bmrt_last_error() (bmruntime_interface.h) has the reason as long
 * as nothing else was called.
 * Threads: a Context may be used by any number of threads, a Network and its tensors by one at a time; several
 * Networks of one name run side by side. Lifetimes: Networks go before their Context, a Context before a handle that
 * it was given.
 */

#include <vector>

#include "bmruntime_interface.h"

#define BMRT_CPP_API __attribute__((visibility("default")))

namespace bmruntime {

class Context;
class Network;
class Tensor;

/* ---- sizes and shapes ---- */

/* Bytes of an element, of device memory, of a tensor (elements times element size). */
BMRT_CPP_API size_t ByteSize(bm_data_type_t type);
BMRT_CPP_API size_t ByteSize(const bm_device_mem_t &device_mem);
BMRT_CPP_API size_t ByteSize(const bm_tensor_t &tensor);
BMRT_CPP_API size_t ByteSize(const Tensor &tensor);

/* Number of elements; 1 for a shape without dims. */
BMRT_CPP_API uint64_t Count(const bm_shape_t &shape);
BMRT_CPP_API uint64_t Count(const bm_tensor_t &tensor);
BMRT_CPP_API uint64_t Count(const Tensor &tensor);

/* Equal num_dims and equal dims. */
BMRT_CPP_API bool IsSameShape(const bm_shape_t &left, const bm_shape_t &right);

/* ---- models ---- */

class BMRT_CPP_API Context {
 public:
  /* On a device of its own handle, or on a handle of the caller's that outlives the context. */
  explicit Context(int devid = 0);
  explicit Context(bm_handle_t bm_handle);
  virtual ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  /* Loads all networks of a model, from memory or from a file. Several models may be loaded; a network's name that
   * exists already is an error. */
  bm_status_t load_bmodel(const void *bmodel_data, size_t size);
  bm_status_t load_bmodel(const char *bmodel_file);

  int get_network_number() const;
  /* Clears the vector first. The names live as long as the context. */
  void get_network_names(std::vector<const char *> *names) const;
  /* NULL: no such network. Lives as long as the context. */
  const bm_net_info_t *get_network_info(const char *net_name) const;
  /* NULL if the context could not be made. */
  bm_handle_t handle() const;
  /* Prints what is loaded to standard output. */
  void trace() const;

 protected:
  void *runtime_;
  bm_handle_t handle_;
  friend class Network;
};

/* ---- launches ---- */

class BMRT_CPP_API Network {
 public:
  /*
   * stage_id: the network has the shapes of that stage, inputs cannot be reshaped. -1: the caller reshapes the inputs
   * to those of one of the stages before Forward; a network with one stage has its shapes from the beginning.
   * Allocates device memory for each tensor, as much as its largest stage needs.
   */
  Network(const Context &ctx, const char *net_name, int stage_id = -1);
  /* Waits for what it launched. */
  virtual ~Network();
  Network(const Network &) = delete;
  Network &operator=(const Network &) = delete;

  /* Launches the network. sync false: returns at once, bm_thread_sync() of the same thread waits and reports. */
  bm_status_t Forward(bool sync = true) const;

  /* In the network's order; empty if it could not be made. Shapes of outputs are valid after Forward. */
  const std::vector<Tensor *> &Inputs();
  const std::vector<Tensor *> &Outputs();
  /* NULL: no tensor of this name. */
  Tensor *Input(const char *tensor_name);
  Tensor *Output(const char *tensor_name);
  /* NULL if the network could not be made. */
  const bm_net_info_t *info() const;

 protected:
  const Context *context_;
  const bm_net_info_t *info_;
  std::vector<Tensor *> inputs_;
  std::vector<Tensor *> outputs_;
  bm_tensor_t *input_tensors_;
  bm_tensor_t *output_tensors_;
};

/* A tensor of a Network, made and destroyed by it. */
class BMRT_CPP_API Tensor {
 public:
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  /* Copies between system memory and the tensor's device memory: all ByteSize() bytes, or size bytes from offset on. Of
   * a tensor in BM_STORE_2N or BM_STORE_4N whose batch is filled up the size has to be given: it has more bytes. */
  bm_status_t CopyTo(void *data) const;
  bm_status_t CopyTo(void *data, size_t size, uint64_t offset = 0) const;
  bm_status_t CopyFrom(const void *data);
  bm_status_t CopyFrom(const void *data, size_t size, uint64_t offset = 0);
  /* The same with num_elements() numbers of float32, whatever the tensor's type is: see bmrt_quant_t. Only in
   * BM_STORE_1N. CopyFrom and CopyTo convert nothing. */
  bm_status_t CopyToFloat(float *data) const;
  bm_status_t CopyFromFloat(const float *data);
  /* For inputs of a network without a fixed stage. The memory must have room. */
  bm_status_t Reshape(const bm_shape_t &shape);
  size_t ByteSize() const;
  uint64_t num_elements() const;
  const bm_tensor_t *tensor() const;
  /* How the tensor's data lie in memory, see bm_store_mode_t; BM_STORE_1N if not set, checked by Forward. For outputs
   * it is how Forward stores them. Set it before the data: memory of the network's own that is too small for the mode
   * is replaced. */
  void set_store_mode(bm_store_mode_t mode) const;
  /* Memory of the caller instead of the network's own, at least ByteSize() bytes. */
  bm_status_t set_device_mem(const bm_device_mem_t &device_mem);

 protected:
  Tensor(bm_handle_t handle, bm_tensor_t *tensor, bool can_reshape = false);
  virtual ~Tensor();
  bool user_mem_;
  float step_;
  bm_handle_t handle_;
  bm_tensor_t *tensor_;
  bool can_reshape_;
  bool has_shape_;
  int zero_point_;
  friend class Network;
};

}  // namespace bmruntime

#endif /* BMRUNTIME_CPP_H */
