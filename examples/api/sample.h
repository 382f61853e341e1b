/* SPDX-License-Identifier: MIT */
/* What the samples have in common: a handwritten digit to read, and a check that says what failed. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmruntime_interface.h"
#include "npu.h"

#define PIXELS 64
#define CLASSES 10

/* Every call can fail; a real program does more than to end. The runtime and BMLIB each have a text. */
#define CHECK(what)                                                                                            \
  do {                                                                                                         \
    if (!(what)) {                                                                                             \
      fprintf(stderr, "%s:%d: %s: %s / %s\n", __FILE__, __LINE__, #what, bmrt_last_error(), npu_last_error()); \
      exit(1);                                                                                                 \
    }                                                                                                          \
  } while (0)

/* Picture number `index` of networks/digits/test_images.bin, as the network wants it. */
static inline void read_picture(const char *path, long index, float *pixels) {
  unsigned char bytes[PIXELS];
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 16 + index * PIXELS, SEEK_SET) == 0 && fread(bytes, 1, PIXELS, file) == PIXELS);
  fclose(file);
  for (int i = 0; i < PIXELS; ++i) pixels[i] = (float)bytes[i] / 16.0f;
}

static inline int best_class(const float *probabilities) {
  int best = 0;
  for (int i = 1; i < CLASSES; ++i)
    if (probabilities[i] > probabilities[best]) best = i;
  return best;
}

#endif /* SAMPLE_H */
