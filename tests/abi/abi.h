/* SPDX-License-Identifier: MIT */
/*
 * Sizes, offsets and values as the documents give them, written down by hand: a changed header does not change them.
 * The tables compile, or they do not: as C11 and C++20, for 64 and 32 bits.
 */
#ifndef NPU_ABI_H
#define NPU_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ABI_ASSERT(condition, what) static_assert(condition, what)
#else
#define ABI_ASSERT(condition, what) _Static_assert(condition, what)
#endif

#define SIZE(type, bytes) ABI_ASSERT(sizeof(type) == (bytes), "size of " #type)
#define AT(type, field, offset) ABI_ASSERT(offsetof(type, field) == (offset), #type "." #field)
#define VALUE(name, number) ABI_ASSERT((name) == (number), #name)

/* Where pointers are inside: for 64 and for 32 bits. */
#if defined(__LP64__)
#define SIZE2(type, bytes64, bytes32) SIZE(type, bytes64)
#define AT2(type, field, offset64, offset32) AT(type, field, offset64)
#else
#define SIZE2(type, bytes64, bytes32) SIZE(type, bytes32)
#define AT2(type, field, offset64, offset32) AT(type, field, offset32)
#endif

#endif /* NPU_ABI_H */
