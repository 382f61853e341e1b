/* SPDX-License-Identifier: MIT */
#ifndef NPU_BMODEL_CPU_PARAM_H
#define NPU_BMODEL_CPU_PARAM_H

/*
 * What a sub-network for the CPU does: CpuParam.op_type is one of NPU_CPU_, CpuParam.binary_param begins with this
 * struct, little endian; only NPU_CPU_GRAPH has more. Fields that an operator does not name below, and reserved ones,
 * are 0. Numbers of operators are never given to others; a new meaning of a field is a new version.
 *
 * "axis" counts from 0, or from the end if negative. Indices are int32. Types of inputs and outputs are those of the
 * sub-network's tensors.
 */

#include <stdint.h>

#define NPU_CPU_PARAM_MAGIC 0x55504351u /* "QCPU" */
#define NPU_CPU_PARAM_VERSION 1u

/* x -> y of as many elements, converted: to integers towards zero and saturated, NaN becomes 0; to floats rounded to
 * nearest even. */
#define NPU_CPU_CAST 1
/* x -> y of the same type and number of elements: another shape. */
#define NPU_CPU_COPY 2
/* x float or integer -> y int32: index of the largest element along `axis`, whose dimension y lacks or has as 1. Of
 * equals the first, with NPU_CPU_LAST_INDEX the last. NaN is never chosen unless there is nothing else. */
#define NPU_CPU_ARGMAX 3
/* x -> values (type of x), indices int32: the `count` largest (NPU_CPU_SMALLEST: smallest) along `axis`, sorted; of
 * equals the lower index first; NaN last. The outputs' dimension `axis` is count. */
#define NPU_CPU_TOPK 4
/* x float32 -> y float32 of the same shape: softmax along `axis`. */
#define NPU_CPU_SOFTMAX 5
/* x -> positions int32 [rank of x, m], number int32 [1]: positions of elements that are not 0, in row-major order, a
 * column each. m is at least the number of elements of x; columns beyond `number` are -1. */
#define NPU_CPU_NONZERO 6
/* boxes float32 [batch, n, 4], scores float32 [batch, classes, n] -> selected int32 [m, 3] (batch, class, box), number
 * int32 [1]: greedy non-maximum suppression for each batch and class. Boxes are two opposite corners, with
 * NPU_CPU_CENTER centre and size (x, y, width, height). `count`: at most so many of a class (0: any number); `iou`: a
 * box that overlaps a better one by more is left out; `score`: only boxes with a higher one. Order: batch, class,
 * falling score, of equals the lower box. At most m are kept; rows beyond `number` are -1. */
#define NPU_CPU_NMS 7

/* A graph of operators of runtime/cpu/node.h: `count` bytes behind this struct (runtime/cpu/host_graph_code.cpp) say
 * which. Inputs and outputs are those of the graph. A tensor of a type that bm_data_type_t does not have (bool, int64,
 * uint64, float64) is stored as uint8, with as many bytes. */
#define NPU_CPU_GRAPH 8

#define NPU_CPU_LAST_INDEX 1u /* flags of ARGMAX */
#define NPU_CPU_SMALLEST 2u   /* of TOPK */
#define NPU_CPU_CENTER 4u     /* of NMS */

struct npu_cpu_param {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes; /* sizeof(struct npu_cpu_param) */
  uint32_t flags;
  int32_t axis;
  uint32_t count;
  float iou;   /* 0 to 1 */
  float score; /* finite */
  uint32_t reserved[9];
};

#ifdef __cplusplus
static_assert(sizeof(struct npu_cpu_param) == 64, "npu_cpu_param");
#endif

#endif /* NPU_BMODEL_CPU_PARAM_H */
