/* SPDX-License-Identifier: MIT */
/* npu_plugin.h: libraries of users are compiled with it and loaded by later versions. */
#include "npu_plugin.h"
#include "tests/abi/abi.h"

VALUE(NPU_PLUGIN_VERSION, 1);
VALUE(NPU_PLUGIN_MAX_DIMS, 8);
VALUE(NPU_PLUGIN_MAX_OUTPUTS, 16);
VALUE(NPU_PLUGIN_FLOAT32, 1);
VALUE(NPU_PLUGIN_UINT8, 2);
VALUE(NPU_PLUGIN_INT8, 3);
VALUE(NPU_PLUGIN_UINT16, 4);
VALUE(NPU_PLUGIN_INT16, 5);
VALUE(NPU_PLUGIN_INT32, 6);
VALUE(NPU_PLUGIN_INT64, 7);
VALUE(NPU_PLUGIN_BOOL, 9);
VALUE(NPU_PLUGIN_UINT32, 12);
VALUE(NPU_PLUGIN_UINT64, 13);

SIZE2(struct npu_plugin_tensor, 96, 88);
AT(struct npu_plugin_tensor, type, 0);
AT(struct npu_plugin_tensor, rank, 4);
AT(struct npu_plugin_tensor, dims, 8);
AT(struct npu_plugin_tensor, count, 72);
AT(struct npu_plugin_tensor, data, 80);
AT2(struct npu_plugin_tensor, reserved, 88, 84);

SIZE2(struct npu_plugin_call, 72, 40);
AT(struct npu_plugin_call, op, 0);
AT2(struct npu_plugin_call, input_count, 8, 4);
AT2(struct npu_plugin_call, output_count, 12, 8);
AT2(struct npu_plugin_call, inputs, 16, 12);
AT2(struct npu_plugin_call, outputs, 24, 16);
AT2(struct npu_plugin_call, get_ints, 32, 20);
AT2(struct npu_plugin_call, get_floats, 40, 24);
AT2(struct npu_plugin_call, get_strings, 48, 28);
AT2(struct npu_plugin_call, get_tensor, 56, 32);
AT2(struct npu_plugin_call, fail, 64, 36);

SIZE2(struct npu_plugin_op, 88, 52);
AT(struct npu_plugin_op, domain, 0);
AT2(struct npu_plugin_op, name, 8, 4);
AT2(struct npu_plugin_op, least_inputs, 16, 8);
AT2(struct npu_plugin_op, most_inputs, 20, 12);
AT2(struct npu_plugin_op, least_outputs, 24, 16);
AT2(struct npu_plugin_op, most_outputs, 28, 20);
AT2(struct npu_plugin_op, infer, 32, 24);
AT2(struct npu_plugin_op, compute, 40, 28);
AT2(struct npu_plugin_op, user, 48, 32);
AT2(struct npu_plugin_op, reserved, 56, 36);

SIZE2(struct npu_plugin, 48, 28);
AT(struct npu_plugin, version, 0);
AT(struct npu_plugin, op_count, 4);
AT(struct npu_plugin, ops, 8);
AT2(struct npu_plugin, reserved, 16, 12);
