/* SPDX-License-Identifier: MIT */
/* BMLIB beyond the plain family: descriptors with 64-bit sizes, pieces, strides, conversions, uncached mappings, copies
 * between devices. */
#include <bmlib_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libnpu/bm_fixture.h"

/* One test a type of descriptor: everything that a family has. Plain numbers differ (unsigned int or unsigned long
 * long). */
#define FAMILY_TESTS(T, DESC, GET_TYPE, GET_ADDR, SET_ADDR, GET_SIZE, SET_SIZE, SET_MEM, FROM_DEVICE, GET_SYSTEM, \
                     SET_SYSTEM)                                                                                  \
  static void T##_descriptors_are_plain_values(void **state) {                                                    \
    DESC mem = FROM_DEVICE(0x123456789000ull, 0x234567890ull);                                                    \
    int local = 0;                                                                                                \
    (void)state;                                                                                                  \
    assert_int_equal(GET_ADDR(mem), 0x123456789000ull);                                                           \
    assert_true(GET_SIZE(mem) == 0x234567890ull);                                                                 \
    assert_int_equal(GET_TYPE(mem), BM_MEM_TYPE_DEVICE);                                                          \
    SET_SIZE(&mem, 0x500000000ull);                                                                               \
    SET_ADDR(&mem, 0x1000);                                                                                       \
    assert_true(GET_SIZE(mem) == 0x500000000ull && GET_ADDR(mem) == 0x1000);                                      \
    SET_MEM(&mem, 6, 0x2000);                                                                                     \
    assert_true(GET_SIZE(mem) == 6 && GET_ADDR(mem) == 0x2000);                                                   \
    SET_SYSTEM(&mem, &local);                                                                                     \
    assert_ptr_equal(GET_SYSTEM(mem), &local);                                                                    \
    assert_int_equal(GET_TYPE(mem), BM_MEM_TYPE_SYSTEM);                                                          \
  }

FAMILY_TESTS(sg, sg_device_mem_t, sg_mem_get_type, sg_mem_get_device_addr, sg_mem_set_device_addr,
             sg_mem_get_device_size, sg_mem_set_device_size, sg_set_device_mem, sg_mem_from_device,
             sg_mem_get_system_addr, sg_mem_set_system_addr)
FAMILY_TESTS(u64, bm_device_mem_u64_t, bm_mem_get_type_u64, bm_mem_get_device_addr_u64, bm_mem_set_device_addr_u64,
             bm_mem_get_device_size_u64, bm_mem_set_device_size_u64, bm_set_device_mem_u64, bm_mem_from_device_u64,
             bm_mem_get_system_addr_u64, bm_mem_set_system_addr_u64)

/* Allocation, all copies, mapping and cache of one family, against a shadow in the process. */
#define COPY_TESTS(T, DESC, MALLOC, HEAP, MASK, DWORD, NEURON, FREE, S2D, S2D_PARTIAL, S2D_OFFSET, D2S, D2S_PARTIAL, \
                   D2S_OFFSET, MMAP, MMAP_NC, UNMAP, FLUSH, FLUSH_PART, INVALIDATE, INVALIDATE_PART, HEAP_ID)        \
  static void T##_memory_is_copied_and_mapped(void **state) {                                                        \
    enum { SIZE = 70000 };                                                                                           \
    uint8_t *data = must_alloc(SIZE), *got = must_alloc(SIZE), *shadow = calloc(1, SIZE);                            \
    unsigned long long address = 0;                                                                                  \
    unsigned int heap = 9;                                                                                           \
    DESC mem;                                                                                                        \
    (void)state;                                                                                                     \
    fill_pattern(data, SIZE, 5);                                                                                     \
    OK(MALLOC(handle, &mem, SIZE));                                                                                  \
    assert_true(mem.size == SIZE);                                                                                   \
    OK(HEAP_ID(handle, &mem, &heap));                                                                                \
    assert_int_equal(heap, 0);                                                                                       \
    OK(D2S(handle, got, mem));                                                                                       \
    assert_bytes(got, shadow, SIZE);                                                                                 \
    OK(S2D(handle, mem, data));                                                                                      \
    memcpy(shadow, data, SIZE);                                                                                      \
    OK(S2D_PARTIAL(handle, mem, data + 7, 100));                                                                     \
    memcpy(shadow, data + 7, 100);                                                                                   \
    OK(S2D_OFFSET(handle, mem, data, 50, 1000));                                                                     \
    memcpy(shadow + 1000, data, 50);                                                                                 \
    OK(D2S(handle, got, mem));                                                                                       \
    assert_bytes(got, shadow, SIZE);                                                                                 \
    OK(D2S_PARTIAL(handle, got, mem, 60));                                                                           \
    assert_bytes(got, shadow, 60);                                                                                   \
    OK(D2S_OFFSET(handle, got, mem, 70, 990));                                                                       \
    assert_bytes(got, shadow + 990, 70);                                                                             \
    assert_int_equal(S2D_OFFSET(handle, mem, data, SIZE, 1), BM_ERR_PARAM);                                          \
    assert_int_equal(D2S_OFFSET(handle, got, mem, 1, SIZE), BM_ERR_PARAM);                                           \
    OK(MMAP(handle, &mem, &address));                                                                                \
    uint8_t *mapped = (uint8_t *)(uintptr_t)address;                                                                 \
    assert_bytes(mapped, shadow, SIZE);                                                                              \
    memset(mapped + 10, 0xee, 30);                                                                                   \
    memset(shadow + 10, 0xee, 30);                                                                                   \
    OK(FLUSH_PART(handle, &mem, 10, 30));                                                                            \
    OK(D2S(handle, got, mem));                                                                                       \
    assert_bytes(got, shadow, SIZE);                                                                                 \
    memset(mapped + 20000, 0xdd, 30);                                                                                \
    memset(shadow + 20000, 0xdd, 30);                                                                                \
    OK(FLUSH(handle, &mem));                                                                                         \
    OK(S2D_OFFSET(handle, mem, data, 500, 300));                                                                     \
    memcpy(shadow + 300, data, 500);                                                                                 \
    OK(INVALIDATE_PART(handle, &mem, 300, 500));                                                                     \
    assert_bytes(mapped, shadow, SIZE);                                                                              \
    OK(S2D_OFFSET(handle, mem, data, 500, 40000));                                                                   \
    memcpy(shadow + 40000, data, 500);                                                                               \
    OK(INVALIDATE(handle, &mem));                                                                                    \
    assert_bytes(mapped, shadow, SIZE);                                                                              \
    assert_int_equal(FLUSH_PART(handle, &mem, SIZE, 1), BM_ERR_PARAM);                                               \
    assert_int_equal(INVALIDATE_PART(handle, &mem, 1, SIZE), BM_ERR_PARAM);                                          \
    OK(UNMAP(handle, mapped, SIZE));                                                                                 \
    /* Without a cache nothing has to be called. */                                                                  \
    OK(MMAP_NC(handle, &mem, &address));                                                                             \
    mapped = (uint8_t *)(uintptr_t)address;                                                                          \
    memset(mapped + 77, 1, 77);                                                                                      \
    memset(shadow + 77, 1, 77);                                                                                      \
    OK(D2S(handle, got, mem));                                                                                       \
    assert_bytes(got, shadow, SIZE);                                                                                 \
    OK(S2D_PARTIAL(handle, mem, data, 200));                                                                         \
    memcpy(shadow, data, 200);                                                                                       \
    assert_bytes(mapped, shadow, SIZE);                                                                              \
    OK(UNMAP(handle, mapped, SIZE));                                                                                 \
    assert_int_equal(UNMAP(handle, mapped, SIZE), BM_ERR_PARAM);                                                     \
    FREE(handle, mem);                                                                                               \
    assert_int_equal(HEAP_ID(handle, &mem, &heap), BM_ERR_PARAM);                                                    \
    for (int i = 0; i < 3; i++) {                                                                                    \
      OK(HEAP(handle, &mem, i, 100));                                                                                \
      FREE(handle, mem);                                                                                             \
      OK(MASK(handle, &mem, 1 << i, 100));                                                                           \
      FREE(handle, mem);                                                                                             \
    }                                                                                                                \
    assert_int_equal(HEAP(handle, &mem, 3, 100), BM_ERR_PARAM);                                                      \
    assert_int_equal(mem.flags.u.mem_type, BM_MEM_TYPE_INVALID);                                                     \
    assert_int_equal(MASK(handle, &mem, 8, 100), BM_ERR_PARAM);                                                      \
    OK(DWORD(handle, &mem, 33));                                                                                     \
    assert_true(mem.size == 132);                                                                                    \
    FREE(handle, mem);                                                                                               \
    OK(NEURON(handle, &mem, 2, 3, 4, 5));                                                                            \
    assert_true(mem.size == 480);                                                                                    \
    FREE(handle, mem);                                                                                               \
    assert_int_equal(MALLOC(handle, NULL, 1), BM_ERR_PARAM);                                                         \
    assert_int_equal(MALLOC(handle, &mem, 0), BM_ERR_PARAM);                                                         \
    assert_int_equal(MMAP(handle, NULL, &address), BM_ERR_PARAM);                                                    \
    assert_int_equal(MALLOC((bm_handle_t)1, &mem, 1), BM_ERR_PARAM);                                                 \
    free(data);                                                                                                      \
    free(got);                                                                                                       \
    free(shadow);                                                                                                    \
  }

COPY_TESTS(bm, bm_device_mem_t, bm_malloc_device_byte, bm_malloc_device_byte_heap, bm_malloc_device_byte_heap_mask,
           bm_malloc_device_dword, bm_malloc_neuron_device, bm_free_device, bm_memcpy_s2d, bm_memcpy_s2d_partial,
           bm_memcpy_s2d_partial_offset, bm_memcpy_d2s, bm_memcpy_d2s_partial, bm_memcpy_d2s_partial_offset,
           bm_mem_mmap_device_mem, bm_mem_mmap_device_mem_no_cache, bm_mem_unmap_device_mem, bm_mem_flush_device_mem,
           bm_mem_flush_partial_device_mem, bm_mem_invalidate_device_mem, bm_mem_invalidate_partial_device_mem,
           bm_get_gmem_heap_id)
COPY_TESTS(sg, sg_device_mem_t, sg_malloc_device_byte, sg_malloc_device_byte_heap, sg_malloc_device_byte_heap_mask,
           sg_malloc_device_dword, sg_malloc_neuron_device, sg_free_device, sg_memcpy_s2d, sg_memcpy_s2d_partial,
           sg_memcpy_s2d_partial_offset, sg_memcpy_d2s, sg_memcpy_d2s_partial, sg_memcpy_d2s_partial_offset,
           sg_mem_mmap_device_mem, sg_mem_mmap_device_mem_no_cache, sg_mem_unmap_device_mem, sg_mem_flush_device_mem,
           sg_mem_flush_partial_device_mem, sg_mem_invalidate_device_mem, sg_mem_invalidate_partial_device_mem,
           sg_get_gmem_heap_id)
COPY_TESTS(u64, bm_device_mem_u64_t, bm_malloc_device_byte_u64, bm_malloc_device_byte_heap_u64,
           bm_malloc_device_byte_heap_mask_u64, bm_malloc_device_dword_u64, bm_malloc_neuron_device_u64,
           bm_free_device_u64, bm_memcpy_s2d_u64, bm_memcpy_s2d_partial_u64, bm_memcpy_s2d_partial_offset_u64,
           bm_memcpy_d2s_u64, bm_memcpy_d2s_partial_u64, bm_memcpy_d2s_partial_offset_u64, bm_mem_mmap_device_mem_u64,
           bm_mem_mmap_device_mem_no_cache_u64, bm_mem_unmap_device_mem_u64, bm_mem_flush_device_mem_u64,
           bm_mem_flush_partial_device_mem_u64, bm_mem_invalidate_device_mem_u64,
           bm_mem_invalidate_partial_device_mem_u64, bm_get_gmem_heap_id_u64)

static void sizes_that_no_number_can_have(void **state) {
  bm_device_mem_t mem;
  sg_device_mem_t sg;
  bm_device_mem_u64_t u64;

  (void)state;
  assert_int_equal(bm_malloc_device_dword(handle, &mem, -1), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_dword(handle, &mem, 1 << 30), BM_ERR_PARAM);
  assert_text(logged, "more than a descriptor with a 32-bit size can have");
  assert_int_equal(bm_malloc_neuron_device(handle, &mem, -1, -1, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_neuron_device(handle, &mem, 65536, 65536, 1, 1), BM_ERR_PARAM);
  assert_int_equal(sg_malloc_device_dword(handle, &sg, 1ull << 62), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_dword_u64(handle, &u64, 1ull << 62), BM_ERR_PARAM);
  assert_int_equal(sg_malloc_neuron_device(handle, &sg, 1ull << 32, 1ull << 32, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_neuron_device_u64(handle, &u64, 1ull << 32, 1ull << 30, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_byte_u64(handle, &u64, 1ull << 62), BM_ERR_NOMEM);
}

/* Needs a card with as much memory (NPU_SIM=ddr=6G); a smaller one says so. */
static void more_than_four_gib(void **state) {
  enum { BYTES = 3000 };
  const unsigned long long size = 5ull << 30, at = (4ull << 30) + 12345;
  bm_heap_stat_byte_t heap;
  struct bm_misc_info misc;
  bm_device_mem_u64_t mem, part;
  uint8_t data[BYTES], got[BYTES], zero[BYTES] = {0};

  (void)state;
  OK(bm_get_gmem_heap_stat_byte_by_id(handle, &heap, 0));
  if (heap.mem_avail < size) {
    assert_int_equal(bm_malloc_device_byte_u64(handle, &mem, size), BM_ERR_NOMEM);
    OK(bm_get_misc_info(handle, &misc));
    assert_text(logged, misc.pcie_soc_mode ? "for a buffer of 5 GiB" : "requested 5 GiB");
    return;
  }
  OK(bm_malloc_device_byte_u64(handle, &mem, size));
  fill_pattern(data, BYTES, 4);
  OK(bm_memcpy_s2d_partial_offset_u64(handle, mem, data, BYTES, at));
  OK(bm_memcpy_d2s_partial_offset_u64(handle, got, mem, BYTES, at));
  assert_bytes(got, data, BYTES);
  /* Not at the place that 32 bits would make of it. */
  OK(bm_memcpy_d2s_partial_offset_u64(handle, got, mem, BYTES, at & 0xffffffff));
  assert_bytes(got, zero, BYTES);
  part = bm_mem_from_device_u64(bm_mem_get_device_addr_u64(mem) + at, BYTES);
  OK(bm_memcpy_d2d_byte_u64(handle, mem, 100, part, 0, BYTES));
  OK(bm_memcpy_d2s_partial_offset_u64(handle, got, mem, BYTES, 100));
  assert_bytes(got, data, BYTES);
  assert_int_equal(bm_memcpy_d2s_partial_offset_u64(handle, got, mem, 2, size - 1), BM_ERR_PARAM);
  bm_free_device_u64(handle, mem);
}

static void addresses_without_descriptors(void **state) {
  unsigned long long address = 1;

  (void)state;
  OK(bm_malloc_device_mem(handle, &address, 0, 4096));
  OK(bm_memset_device(handle, 5, bm_mem_from_device(address, 4096)));
  bm_free_device_mem(handle, address);
  assert_int_equal(bm_memset_device(handle, 5, bm_mem_from_device(address, 4096)), BM_ERR_PARAM);
  bm_free_device_mem(handle, address);
  assert_text(logged, "nothing was freed");
  OK(bm_malloc_device_mem_mask(handle, &address, 2, 4096));
  bm_free_device_mem(handle, address);
  assert_int_equal(bm_malloc_device_mem(handle, &address, 3, 4096), BM_ERR_PARAM);
  assert_int_equal(address, 0);
  assert_int_equal(bm_malloc_device_mem_mask(handle, &address, 8, 4096), BM_ERR_PARAM);
  assert_int_equal(bm_malloc_device_mem(handle, NULL, 0, 4096), BM_ERR_PARAM);
}

static void pieces_are_gathered_and_scattered(void **state) {
  uint8_t data[600], got[600], first[100], second[500];
  bm_device_mem_t mem;

  (void)state;
  fill_pattern(data, sizeof(data), 3);
  OK(bm_malloc_device_byte(handle, &mem, 600));
  OK(bm_memcpy_s2d_gather(handle, mem, 6, data, 100ull, (void *)NULL, 0ull, data + 100, 500ull));
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, data, 600);
  OK(bm_memcpy_d2s_scatter(handle, mem, 4, first, 100ull, second, 500ull));
  assert_bytes(first, data, 100);
  assert_bytes(second, data + 100, 500);
  OK(bm_memcpy_s2d_gather(handle, mem, 0));
  /* Nothing is copied before all is known to be right. */
  memset(got, 0, sizeof(got));
  assert_int_equal(bm_memcpy_s2d_gather(handle, mem, 4, got, 100ull, got, 501ull), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_s2d_gather(handle, mem, 4, got, 100ull, got, ~0ull), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_s2d_gather(handle, mem, 3, got, 100ull, got), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_s2d_gather(handle, mem, 4, got, 100ull, (void *)NULL, 1ull), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2s_scatter(handle, mem, -2), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2s_scatter((bm_handle_t)1, mem, 0), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_s2d_gather((bm_handle_t)1, mem, 0), BM_ERR_PARAM);
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, data, 600);
  bm_free_device(handle, mem);
}

static void copies_with_strides(void **state) {
  enum { COUNT = 50000 };
  uint32_t *words = must_alloc(COUNT * 3 * 4), *got = must_alloc(COUNT * 4);
  uint8_t *bytes = must_alloc(COUNT * 4), *spread = must_alloc(COUNT * 4);
  bm_device_mem_t src, dst;
  bm_device_mem_u64_t wide_src, wide_dst;

  (void)state;
  OK(bm_malloc_device_byte(handle, &src, COUNT * 12));
  OK(bm_malloc_device_byte(handle, &dst, COUNT * 4));
  wide_src = bm_mem_from_device_u64(bm_mem_get_device_addr(src), COUNT * 12);
  wide_dst = bm_mem_from_device_u64(bm_mem_get_device_addr(dst), COUNT * 4);
  fill_pattern(words, COUNT * 12, 1);
  OK(bm_memcpy_s2d(handle, src, words));
  for (int format = 1; format <= 4; format *= 2) {
    OK(bm_memset_device(handle, -1, dst));
    if (format == 2)
      OK(bm_memcpy_d2d_stride_u64(handle, wide_dst, 1, wide_src, 3, COUNT, format));
    else
      OK(bm_memcpy_d2d_stride(handle, dst, 1, src, 3, COUNT, format));
    OK(bm_memcpy_d2s(handle, got, dst));
    for (size_t i = 0; i < COUNT; i++)
      assert_memory_equal((uint8_t *)got + i * (size_t)format, (uint8_t *)words + i * 3 * (size_t)format, format);
    if (format < 4) assert_int_equal(((uint8_t *)got)[COUNT * format], 0xff);
  }
  /* The one allowed way of spreading; what lies in between stays. */
  fill_pattern(spread, COUNT * 4, 2);
  OK(bm_memcpy_s2d(handle, dst, spread));
  OK(bm_memcpy_d2d_stride(handle, dst, 4, src, 1, COUNT, 1));
  OK(bm_memcpy_d2s(handle, bytes, dst));
  for (size_t i = 0; i < COUNT * 4; i++) assert_int_equal(bytes[i], i % 4 ? spread[i] : ((uint8_t *)words)[i / 4]);
  OK(bm_memcpy_d2d_stride(handle, dst, 1, src, 1, 0, 4));
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 2, src, 1, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 4, src, 1, 1, 2), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 1, src, 0, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 1, src, 1, 1, 3), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 1, src, -1, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride(handle, dst, 1, src, 4, COUNT, 4), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride_u64(handle, wide_dst, 1, wide_src, ~0ull, 3, 4), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_stride((bm_handle_t)1, dst, 1, src, 1, 1, 1), BM_ERR_PARAM);
  bm_free_device(handle, src);
  bm_free_device(handle, dst);
  free(words);
  free(got);
  free(bytes);
  free(spread);
}

static void wide_copies_and_fills_within_the_device(void **state) {
  uint8_t data[4096], got[4096], value[4] = {9, 8, 7, 6};
  bm_device_mem_u64_t a, b;

  (void)state;
  fill_pattern(data, 4096, 2);
  OK(bm_malloc_device_byte_u64(handle, &a, 4096));
  OK(bm_malloc_device_byte_u64(handle, &b, 4096));
  OK(bm_memcpy_s2d_u64(handle, a, data));
  OK(bm_memcpy_d2d_u64(handle, b, 4, a, 8, 100)); /* offsets in bytes, length in dwords */
  OK(bm_memcpy_d2s_u64(handle, got, b));
  assert_bytes(got + 4, data + 8, 400);
  OK(bm_memcpy_d2d_byte_u64(handle, b, 1, a, 3, 4093));
  OK(bm_memcpy_d2s_u64(handle, got, b));
  assert_bytes(got + 1, data + 3, 4093);
  OK(bm_memset_device_ext_u64(handle, value, 4, b));
  OK(bm_memcpy_d2s_u64(handle, got, b));
  for (int i = 0; i < 4096; i++) assert_int_equal(got[i], value[i % 4]);
  assert_int_equal(bm_memcpy_d2d_u64(handle, b, 0, a, 0, 1ull << 62), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_d2d_byte_u64(handle, b, ~0ull, a, 0, 1), BM_ERR_PARAM);
  bm_free_device_u64(handle, a);
  bm_free_device_u64(handle, b);
}

static void conversions_allocate_and_copy(void **state) {
  uint8_t data[480], got[480];
  bm_device_mem_t mem;
  bm_system_mem_t system = bm_mem_from_system(data);

  (void)state;
  fill_pattern(data, sizeof(data), 6);
  OK(bm_mem_convert_system_to_device_neuron(handle, &mem, system, true, 2, 3, 4, 5));
  assert_int_equal(bm_mem_get_device_size(mem), 480);
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, data, 480);
  bm_free_device(handle, mem);
  OK(bm_mem_convert_system_to_device_neuron_byte(handle, &mem, system, true, 2, 3, 4, 5));
  assert_int_equal(bm_mem_get_device_size(mem), 120);
  bm_free_device(handle, mem);
  OK(bm_mem_convert_system_to_device_coeff(handle, &mem, system, true, 120));
  assert_int_equal(bm_mem_get_device_size(mem), 480);
  OK(bm_memcpy_d2s(handle, got, mem));
  assert_bytes(got, data, 480);
  bm_free_device(handle, mem);
  OK(bm_mem_convert_system_to_device_coeff_byte(handle, &mem, bm_mem_null(), false, 33));
  assert_int_equal(bm_mem_get_device_size(mem), 33);
  bm_free_device(handle, mem);
  assert_int_equal(bm_mem_convert_system_to_device_coeff_byte(handle, &mem, bm_mem_null(), true, 33), BM_ERR_PARAM);
  assert_int_equal(bm_mem_get_type(mem), BM_MEM_TYPE_INVALID);
  assert_int_equal(bm_mem_convert_system_to_device_coeff(handle, &mem, system, true, -1), BM_ERR_PARAM);
  assert_int_equal(bm_mem_convert_system_to_device_neuron(handle, &mem, system, true, 65536, 65536, 1, 1),
                   BM_ERR_PARAM);
  assert_int_equal(bm_mem_convert_system_to_device_neuron_byte(handle, NULL, system, true, 1, 1, 1, 1), BM_ERR_PARAM);
  assert_int_equal(bm_mem_convert_system_to_device_coeff((bm_handle_t)1, &mem, system, true, 1), BM_ERR_PARAM);
}

static void mapped_addresses_lead_back(void **state) {
  unsigned long long address = 0, inside = 0, device = 0;
  bm_device_mem_t mem, part;

  (void)state;
  OK(bm_malloc_device_byte(handle, &mem, 8192));
  part = bm_mem_from_device(bm_mem_get_device_addr(mem) + 5000, 100);
  OK(bm_mem_mmap_device_mem(handle, &mem, &address));
  OK(bm_mem_mmap_device_mem_no_cache(handle, &part, &inside));
  OK(bm_mem_vir_to_phy(handle, address + 17, &device));
  assert_int_equal(device, bm_mem_get_device_addr(mem) + 17);
  OK(bm_mem_vir_to_phy(handle, inside + 99, &device));
  assert_int_equal(device, bm_mem_get_device_addr(mem) + 5099);
  assert_int_equal(bm_mem_vir_to_phy(handle, address + 8192, &device), BM_ERR_PARAM);
  assert_text(logged, "lies in no mapping");
  assert_int_equal(bm_mem_vir_to_phy(handle, address, NULL), BM_ERR_PARAM);
  assert_int_equal(bm_mem_vir_to_phy((bm_handle_t)1, address, &device), BM_ERR_PARAM);
  OK(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)address, 8192));
  OK(bm_mem_unmap_device_mem(handle, (void *)(uintptr_t)inside, 100));
  assert_int_equal(bm_mem_vir_to_phy(handle, address, &device), BM_ERR_PARAM);
  bm_free_device(handle, mem);
}

static void copies_between_devices(void **state) {
  enum { SIZE = 5 << 20 };
  uint8_t *data = must_alloc(SIZE), *got = must_alloc(SIZE);
  bm_handle_t other = NULL;
  bm_device_mem_t here, there;
  int count = 0;

  (void)state;
  fill_pattern(data, SIZE, 9);
  OK(bm_dev_getcount(&count));
  /* With one card: two handles of it. */
  OK(bm_dev_request(&other, count > 1 ? 1 : 0));
  OK(bm_malloc_device_byte(handle, &here, SIZE));
  OK(bm_malloc_device_byte(other, &there, SIZE));
  OK(bm_memcpy_s2d(handle, here, data));
  OK(bm_memcpy_p2p(handle, here, other, there));
  OK(bm_memcpy_d2s(other, got, there));
  assert_bytes(got, data, SIZE);
  fill_pattern(data, SIZE, 10);
  OK(bm_memcpy_s2d(other, there, data));
  OK(bm_memcpy_c2c(other, handle, there, here, true));
  OK(bm_memcpy_d2s(handle, got, here));
  assert_bytes(got, data, SIZE);
  /* p2p asks for dst's size, c2c gives src's. */
  bm_mem_set_device_size(&there, 1000);
  OK(bm_memcpy_p2p(handle, here, other, there));
  OK(bm_memcpy_c2c(other, handle, there, here, false));
  assert_int_equal(bm_memcpy_p2p(other, there, handle, here), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_c2c(handle, other, here, there, false), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_p2p((bm_handle_t)1, here, other, there), BM_ERR_PARAM);
  assert_int_equal(bm_memcpy_c2c(handle, (bm_handle_t)1, here, there, false), BM_ERR_PARAM);
  bm_free_device(handle, here);
  bm_free_device(other, there);
  bm_dev_free(other);
  free(data);
  free(got);
}

static void expect_other_card(bm_status_t status) {
  assert_int_equal(status, BM_ERR_PARAM);
  assert_text(npu_last_error(), " belongs to a buffer of device 1, expected one of device 0");
}

/* Cards have no address in common: a descriptor that is used with the handle of another card never hits. */
static void memory_of_another_card_is_refused(void **state) {
  bm_handle_t other = NULL;
  bm_device_mem_t here, there;
  unsigned long long address = 0;
  uint8_t data[64], got[64];
  int count = 0;

  (void)state;
  OK(bm_dev_getcount(&count));
  if (count < 2) skip();
  fill_pattern(data, sizeof(data), 9);
  OK(bm_dev_request(&other, 1));
  OK(bm_malloc_device_byte(handle, &here, 64));
  OK(bm_malloc_device_byte(other, &there, 64));
  OK(bm_memcpy_s2d(other, there, data));
  assert_true(bm_mem_get_device_addr(here) != bm_mem_get_device_addr(there));
  expect_other_card(bm_memcpy_s2d(handle, there, data));
  expect_other_card(bm_memcpy_d2s(handle, got, there));
  expect_other_card(bm_memcpy_s2d_gather(handle, there, 2, data, 64ull));
  expect_other_card(bm_memcpy_d2s_scatter(handle, there, 2, got, 64ull));
  expect_other_card(bm_memcpy_d2d_byte(handle, there, 0, here, 0, 64));
  expect_other_card(bm_memcpy_d2d_byte(handle, here, 0, there, 0, 64));
  expect_other_card(bm_memcpy_d2d_stride(handle, here, 1, there, 1, 64, 1));
  expect_other_card(bm_memcpy_c2c(handle, other, there, there, false));
  expect_other_card(bm_memset_device(handle, 0, there));
  expect_other_card(bm_memset_device_ext(handle, data, 4, there));
  expect_other_card(bm_mem_mmap_device_mem(handle, &there, &address));
  expect_other_card(bm_mem_mmap_device_mem_no_cache(handle, &there, &address));
  expect_other_card(bm_mem_flush_device_mem(handle, &there));
  expect_other_card(bm_mem_invalidate_partial_device_mem(handle, &there, 0, 1));
  bm_free_device(handle, there);
  assert_text(logged, "nothing was freed");
  OK(bm_memcpy_d2s(other, got, there));
  assert_bytes(got, data, 64);
  bm_free_device(handle, here);
  bm_free_device(other, there);
  bm_dev_free(other);
}

int bm_wide_tests(void) {
#define BM_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      BM_TEST(sg_descriptors_are_plain_values),
      BM_TEST(u64_descriptors_are_plain_values),
      BM_TEST(bm_memory_is_copied_and_mapped),
      BM_TEST(sg_memory_is_copied_and_mapped),
      BM_TEST(u64_memory_is_copied_and_mapped),
      BM_TEST(sizes_that_no_number_can_have),
      BM_TEST(more_than_four_gib),
      BM_TEST(addresses_without_descriptors),
      BM_TEST(pieces_are_gathered_and_scattered),
      BM_TEST(copies_with_strides),
      BM_TEST(wide_copies_and_fills_within_the_device),
      BM_TEST(conversions_allocate_and_copy),
      BM_TEST(mapped_addresses_lead_back),
      BM_TEST(copies_between_devices),
      BM_TEST(memory_of_another_card_is_refused),
  };
  return cmocka_run_group_tests_name("bm_wide", tests, NULL, NULL);
}
