// SPDX-License-Identifier: MIT
#include "runtime/arrays/picture.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <charconv>
#include <csetjmp>
#include <cstring>
#include <limits>

namespace npu::arrays {
namespace {

constexpr int64_t kMostSide = 1 << 15, kMostPixels = 1 << 26;  // 800 MB in float32

Status check_size(int64_t width, int64_t height) {
  if (width > 0 && height > 0 && width <= kMostSide && height <= kMostSide && width * height <= kMostPixels) return {};
  return Status::error("a picture of " + std::to_string(width) + " x " + std::to_string(height) + " pixels, 1 to " +
                       std::to_string(kMostSide) + " a side and at most " + std::to_string(kMostPixels) +
                       " together are expected");
}

void set_bytes(const std::vector<uint8_t> &rgb, Picture &out) { out.pixels.assign(rgb.begin(), rgb.end()); }

Status parse_png(std::string_view bytes, Picture &out) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto failed = [&] {
    const std::string message = image.message;
    png_image_free(&image);
    return Status::error("damaged PNG: " + message);
  };
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) return failed();
  out.width = image.width;
  out.height = image.height;
  if (const Status size = check_size(out.width, out.height); !size.ok()) {
    png_image_free(&image);
    return size;
  }
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> rgb(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&image, &black, rgb.data(), 0, nullptr)) return failed();
  set_bytes(rgb, out);
  return {};
}

/// libjpeg's way to report errors: a jump back to who called it.
struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands out a pointer to it
  jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  auto *errors = reinterpret_cast<JpegErrors *>(info->err);
  (*info->err->format_message)(info, errors->message);
  longjmp(errors->back, 1);
}

void ignore_message(j_common_ptr) {}

/// A JPEG that is being read. Nothing with a destructor lives in the functions that call setjmp().
class Jpeg {
 public:
  Jpeg() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jpeg_failed;
    errors_.manager.output_message = ignore_message;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg &) = delete;
  Jpeg &operator=(const Jpeg &) = delete;

  bool read_head(std::string_view bytes) {
    if (setjmp(errors_.back)) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  /// `rgb` has room for all pixels.
  bool read_pixels(uint8_t *rgb) {
    if (setjmp(errors_.back)) return false;
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = rgb + size_t{3} * info_.output_scanline * info_.output_width;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    const bool whole = errors_.manager.num_warnings == 0;
    if (!whole) (*info_.err->format_message)(reinterpret_cast<j_common_ptr>(&info_), errors_.message);
    return whole;
  }
  const jpeg_decompress_struct &info() const { return info_; }
  Status damaged() const { return Status::error(std::string("damaged JPEG: ") + errors_.message); }

 private:
  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
};

Status parse_jpeg(std::string_view bytes, Picture &out) {
  Jpeg jpeg;
  if (!jpeg.read_head(bytes)) return jpeg.damaged();
  out.width = jpeg.info().image_width;
  out.height = jpeg.info().image_height;
  NPU_TRY(check_size(out.width, out.height));
  const J_COLOR_SPACE colors = jpeg.info().jpeg_color_space;
  if (colors != JCS_GRAYSCALE && colors != JCS_RGB && colors != JCS_YCbCr)
    return Status::error("a JPEG of " + std::to_string(jpeg.info().num_components) + " channels" +
                         (colors == JCS_CMYK || colors == JCS_YCCK ? " (CMYK)" : "") + ", gray or RGB is expected");
  std::vector<uint8_t> rgb(static_cast<size_t>(out.width * out.height * 3));
  if (!jpeg.read_pixels(rgb.data())) return jpeg.damaged();
  set_bytes(rgb, out);
  return {};
}

/// A number of the head of a PPM, behind blanks and comments; the largest there is for one that is larger.
bool take_number(std::string_view bytes, size_t &at, int64_t &out) {
  while (at < bytes.size() && (std::isspace(static_cast<unsigned char>(bytes[at])) || bytes[at] == '#'))
    if (bytes[at++] == '#') at = std::min(bytes.find('\n', at), bytes.size());
  const size_t first = at;
  while (at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at]))) ++at;
  if (std::from_chars(bytes.data() + first, bytes.data() + at, out).ec == std::errc::result_out_of_range)
    out = std::numeric_limits<int64_t>::max();
  return at > first;
}

Status parse_ppm(std::string_view bytes, Picture &out) {
  int64_t most = 0;
  size_t at = 2;
  if (!take_number(bytes, at, out.width) || !take_number(bytes, at, out.height) || !take_number(bytes, at, most))
    return Status::error("damaged PPM: width, height and the largest value are expected");
  NPU_TRY(check_size(out.width, out.height));
  if (most < 1 || most > 255)
    return Status::error("a PPM with values up to " + std::to_string(most) + ", 1 to 255 is expected");
  const size_t channels = bytes[1] == '6' ? 3 : 1, count = static_cast<size_t>(out.width * out.height) * channels;
  if (++at > bytes.size() || bytes.size() - at < count) return Status::error("damaged PPM: it ends too early");
  for (size_t i = 0; i < count; ++i) {
    const float v = static_cast<float>(static_cast<uint8_t>(bytes[at + i])) * 255 / static_cast<float>(most);
    out.pixels.insert(out.pixels.end(), 3 / channels, v);
  }
  return {};
}

uint32_t little(std::string_view bytes, size_t at, size_t length) {
  uint32_t v = 0;
  for (size_t i = 0; i < length && at + i < bytes.size(); ++i)
    v |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return v;
}

Status parse_bmp(std::string_view bytes, Picture &out) {
  constexpr uint32_t kLeastHead = 40;  // older ones have other fields
  const uint32_t first = little(bytes, 10, 4), head = little(bytes, 14, 4), bits = little(bytes, 28, 2);
  if (head < kLeastHead)
    return Status::error("a BMP with a header of " + std::to_string(head) + " bytes, at least " +
                         std::to_string(kLeastHead) + " are expected");
  out.width = static_cast<int32_t>(little(bytes, 18, 4));
  const auto rows = static_cast<int32_t>(little(bytes, 22, 4));  // negative: from the top
  out.height = std::abs(int64_t{rows});
  NPU_TRY(check_size(out.width, out.height));
  if (little(bytes, 30, 4) != 0 || (bits != 8 && bits != 24 && bits != 32))
    return Status::error("a BMP of " + std::to_string(bits) +
                         " bits or compressed: 8, 24 or 32 are expected, not "
                         "compressed");
  const size_t line = (static_cast<size_t>(out.width) * bits / 8 + 3) / 4 * 4, palette = size_t{14} + head;
  if (first > bytes.size() || bytes.size() - first < line * static_cast<size_t>(out.height))
    return Status::error("damaged BMP: it ends too early");
  for (int64_t y = 0; y < out.height; ++y) {
    const size_t row = first + line * static_cast<size_t>(rows > 0 ? out.height - 1 - y : y);
    for (int64_t x = 0; x < out.width; ++x) {
      const size_t pixel = row + static_cast<size_t>(x) * bits / 8;
      const size_t bgr = bits == 8 ? palette + 4 * little(bytes, pixel, 1) : pixel;
      for (size_t c = 3; c-- > 0;) out.pixels.push_back(static_cast<float>(little(bytes, bgr + c, 1)));
    }
  }
  return {};
}

/// Weights of the pixels that one pixel of a resized line consists of.
struct Tap {
  int64_t first = 0;
  std::vector<double> weights;
};

/// Triangles as wide as two pixels of the smaller of both lines, as Pillow's and torchvision's bilinear filter has it.
std::vector<Tap> triangle_taps(int64_t from, int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to), support = std::max(step, 1.0);
  std::vector<Tap> out;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    Tap tap;
    tap.first = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(centre + support + 0.5));
    double sum = 0;
    for (int64_t k = tap.first; k < end; ++k) {
      tap.weights.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - centre) / support)));
      sum += tap.weights.back();
    }
    for (double &w : tap.weights) w /= sum;
    out.push_back(std::move(tap));
  }
  return out;
}

/// Every element of a result is a sum along one dimension, whose elements are `inner` apart.
std::vector<float> resized(const std::vector<float> &x, int64_t outer, int64_t from, int64_t to, int64_t inner) {
  const std::vector<Tap> taps = triangle_taps(from, to);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(outer * to * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (const Tap &tap : taps)
      for (int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        for (size_t k = 0; k < tap.weights.size(); ++k)
          sum += tap.weights[k] * x[static_cast<size_t>((o * from + tap.first + static_cast<int64_t>(k)) * inner + i)];
        out.push_back(static_cast<float>(sum));
      }
  return out;
}

Picture resized(const Picture &p, int64_t width, int64_t height) {
  return {width, height, resized(resized(p.pixels, p.height, p.width, width, 3), 1, p.height, height, width * 3)};
}

/// The size that a picture gets.
std::array<int64_t, 2> size_of(const Picture &p, const std::array<int64_t, 2> &resize) {
  if (resize[0] == 0) return {p.width, p.height};
  if (resize[1] != 0) return resize;
  const int64_t longer = resize[0] * std::max(p.width, p.height) / std::min(p.width, p.height);
  return p.width <= p.height ? std::array{resize[0], longer} : std::array{longer, resize[0]};
}

}  // namespace

Status parse_picture(std::string_view bytes, Picture &out) {
  out = {};
  if (bytes.substr(0, 4) == "\x89PNG") return parse_png(bytes, out);
  if (bytes.substr(0, 2) == "\xff\xd8") return parse_jpeg(bytes, out);
  if (bytes.substr(0, 2) == "BM") return parse_bmp(bytes, out);
  if (bytes.substr(0, 2) == "P5" || bytes.substr(0, 2) == "P6") return parse_ppm(bytes, out);
  return Status::error("not a picture: PNG, JPEG, BMP, PPM or PGM is expected");
}

Status to_tensor(const Picture &picture, const Preprocess &pre, cpu::Tensor &out) {
  const auto [width, height] = size_of(picture, pre.resize);
  const bool resizes = width != picture.width || height != picture.height;
  // First all rows get their new width.
  if (resizes) NPU_TRY(check_size(width, picture.height).within("resized"));
  if (resizes) NPU_TRY(check_size(width, height).within("resized"));
  const Picture p = resizes ? resized(picture, width, height) : picture;
  const int64_t w = pre.crop[0] ? pre.crop[0] : p.width, h = pre.crop[1] ? pre.crop[1] : p.height;
  if (w > p.width || h > p.height)
    return Status::error("it has " + std::to_string(p.width) + " x " + std::to_string(p.height) +
                         " pixels, a crop of " + std::to_string(w) + " x " + std::to_string(h) + " does not fit in");
  const int64_t left = (p.width - w) / 2, top = (p.height - h) / 2;
  const int64_t channels = pre.order == Preprocess::Order::Gray ? 1 : 3;
  out = cpu::Tensor(cpu::Dtype::F32, pre.channels_last ? cpu::Shape{1, h, w, channels} : cpu::Shape{1, channels, h, w});
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x) {
      const float *rgb = &p.pixels[static_cast<size_t>(((top + y) * p.width + left + x) * 3)];
      for (int64_t c = 0; c < channels; ++c) {
        const float v = channels == 1                         ? (rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114) / 1000
                        : pre.order == Preprocess::Order::Bgr ? rgb[2 - c]
                                                              : rgb[c];
        const auto k = static_cast<size_t>(c);
        const double mean = pre.mean[pre.mean.size() > 1 ? k : 0], std = pre.std[pre.std.size() > 1 ? k : 0];
        out.as<float>()[pre.channels_last ? (y * w + x) * channels + c : (c * h + y) * w + x] =
            static_cast<float>((v * pre.scale - mean) / std);
      }
    }
  return {};
}

}  // namespace npu::arrays
