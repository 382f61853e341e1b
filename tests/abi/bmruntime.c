/* SPDX-License-Identifier: MIT */
/* bmdef.h, bmruntime_interface.h: on 64 bits the layouts that programs for the vendor's runtime were compiled with. */
#include <bmruntime_interface.h>

#include "tests/abi/abi.h"

VALUE(BM_FLOAT32, 0);
VALUE(BM_FLOAT16, 1);
VALUE(BM_INT8, 2);
VALUE(BM_UINT8, 3);
VALUE(BM_INT16, 4);
VALUE(BM_UINT16, 5);
VALUE(BM_INT32, 6);
VALUE(BM_UINT32, 7);
VALUE(BM_BFLOAT16, 8);
VALUE(BM_INT4, 9);
VALUE(BM_UINT4, 10);
VALUE(BM_STORE_1N, 0);
VALUE(BM_STORE_2N, 1);
VALUE(BM_STORE_4N, 2);
VALUE(BM_MAX_DIMS_NUM, 8);

VALUE(BM_RUNTIME_AUTO, 0);
VALUE(BM_RUNTIME_SHARE_MEM, 1);
VALUE(BM_RUNTIME_CHECK_MEM, 2);
VALUE(BM_RUNTIME_SHARE_DYNMEM, 4);
VALUE(BM_RUNTIME_SOC_CMDBUF_MEM, 8);
VALUE(BM_RUNTIME_FREE_COEFF, 16);
VALUE(BM_RUNTIME_NEURON_MEM_IN_PRE_ALLOC, 32);
VALUE(BM_RUNTIME_YIELD_TO_KERNEL_TASK, 64);
VALUE(ADDR_MODE_BASIC, 0);
VALUE(ADDR_MODE_IO_ALONE, 1);
VALUE(ADDR_MODE_IO_TAG, 2);
VALUE(ADDR_MODE_IO_TAG_FUSE, 3);
VALUE(ADDR_MODE_IO_RELOC, 4);

SIZE(bm_shape_ex_t, 40);
AT(bm_shape_ex_t, elem_num, 36);

SIZE2(api_info_c, 72, 36);
AT2(api_info_c, api_id, 0, 0);
AT2(api_info_c, api_id_size, 8, 4);
AT2(api_info_c, api_data, 16, 8);
AT2(api_info_c, api_data_size, 24, 12);
AT2(api_info_c, api_data_subsize, 32, 16);
AT2(api_info_c, input_addr_offset, 40, 20);
AT2(api_info_c, input_addr_offset_number, 48, 24);
AT2(api_info_c, output_addr_offset, 56, 28);
AT2(api_info_c, output_addr_offset_number, 64, 32);

SIZE(memory_t, 152);
AT(memory_t, addr, 0);
AT(memory_t, size, 8);
AT(memory_t, type, 16);
AT(memory_t, number, 20);
AT(memory_t, reserved, 24);

SIZE(mem_info_t, 1368);
AT(mem_info_t, instruction_mem, 0);
AT(mem_info_t, variable_instruction_mem, 152);
AT(mem_info_t, neuron_mem, 304);
AT(mem_info_t, coeff_mem, 456);
AT(mem_info_t, io_mem, 608);
AT(mem_info_t, reserved, 760);

SIZE(bm_coeff_info_t, 280);
AT(bm_coeff_info_t, path, 0);
AT(bm_coeff_info_t, device_mem, 256);

SIZE(bmrt_quant_t, 12);
AT(bmrt_quant_t, dtype, 0);
AT(bmrt_quant_t, step, 4);
AT(bmrt_quant_t, zero_point, 8);

SIZE(bm_data_type_t, 4);
SIZE(bm_store_mode_t, 4);

SIZE(bm_shape_t, 36);
AT(bm_shape_t, num_dims, 0);
AT(bm_shape_t, dims, 4);

SIZE2(bm_tensor_t, 72, 68);
AT(bm_tensor_t, dtype, 0);
AT(bm_tensor_t, shape, 4);
AT(bm_tensor_t, device_mem, 40);
AT(bm_tensor_t, st_mode, 64);

SIZE2(bm_stage_info_t, 32, 16);
AT2(bm_stage_info_t, input_shapes, 0, 0);
AT2(bm_stage_info_t, output_shapes, 8, 4);
AT2(bm_stage_info_t, input_mems, 16, 8);
AT2(bm_stage_info_t, output_mems, 24, 12);

SIZE2(bm_net_info_t, 144, 80);
AT2(bm_net_info_t, name, 0, 0);
AT2(bm_net_info_t, is_dynamic, 8, 4);
AT2(bm_net_info_t, input_num, 12, 8);
AT2(bm_net_info_t, input_names, 16, 12);
AT2(bm_net_info_t, input_dtypes, 24, 16);
AT2(bm_net_info_t, input_scales, 32, 20);
AT2(bm_net_info_t, output_num, 40, 24);
AT2(bm_net_info_t, output_names, 48, 28);
AT2(bm_net_info_t, output_dtypes, 56, 32);
AT2(bm_net_info_t, output_scales, 64, 36);
AT2(bm_net_info_t, stage_num, 72, 40);
AT2(bm_net_info_t, stages, 80, 44);
AT2(bm_net_info_t, max_input_bytes, 88, 48);
AT2(bm_net_info_t, max_output_bytes, 96, 52);
AT2(bm_net_info_t, input_zero_point, 104, 56);
AT2(bm_net_info_t, output_zero_point, 112, 60);
AT2(bm_net_info_t, input_loc_devices, 120, 64);
AT2(bm_net_info_t, output_loc_devices, 128, 68);
AT2(bm_net_info_t, core_num, 136, 72);
AT2(bm_net_info_t, addr_mode, 140, 76);
