// SPDX-License-Identifier: MIT
// Pictures as inputs of networks.
#ifndef NPU_ARRAYS_PICTURE_H
#define NPU_ARRAYS_PICTURE_H

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "runtime/cpu/tensor.h"

namespace npu::arrays {

/// Rows from the top, red, green and blue side by side.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<float> pixels;  ///< 0 to 255
};

/// PNG, JPEG (gray or RGB), BMP (8, 24 and 32 bits, not compressed), PPM and PGM (P5, P6), told apart by their content.
/// Of pictures with transparency the ground is black. Pictures have at most 2^26 pixels, 2^15 a side; also those that a
/// preprocessing resizes.
Status parse_picture(std::string_view bytes, Picture &out);

/// What happens to a picture before a network sees it, in this order.
struct Preprocess {
  enum class Order : uint8_t { Rgb, Bgr, Gray };
  std::array<int64_t, 2> resize{0, 0};  ///< width and height; {n, 0}: the shorter side becomes n; {0, 0}: not at all
  std::array<int64_t, 2> crop{0, 0};    ///< from the middle
  Order order = Order::Rgb;
  double scale = 1;
  std::vector<double> mean{0}, std{1};  ///< one, or one for each channel in that order: (pixel * scale - mean) / std
  bool channels_last = false;
};

/// "resize=256,crop=224,scale=1/255,mean=0.485,0.456,0.406,std=0.229,0.224,0.225,order=rgb,layout=nchw"
Status parse_preprocess(const std::string &text, Preprocess &out);

/// float32, [1, channels, height, width] or [1, height, width, channels].
Status to_tensor(const Picture &picture, const Preprocess &preprocess, cpu::Tensor &out);

}  // namespace npu::arrays

#endif  // NPU_ARRAYS_PICTURE_H
