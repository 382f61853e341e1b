// SPDX-License-Identifier: MIT
// Results in double precision, written apart from the back ends: padded images, im2col matrices and index arithmetic.
#ifndef NPU_TESTS_COMPUTE_ORACLE_H
#define NPU_TESTS_COMPUTE_ORACLE_H

#include "tests/unit/compute/cases.h"

namespace npu::test {

using Doubles = std::vector<double>;

inline constexpr double kUnit = 0x1p-23;

/// The image with its padding made explicit, of the size that all windows together need: rows * columns * channels.
struct Padded {
  int rows, columns, channels;
  Doubles cells;
  std::vector<char> real;  ///< whether the cell comes from the image

  template <class Command>
  Padded(const Command &c, int channels_, const float *image)
      : rows((c.oh - 1) * c.sh + (c.kh - 1) * c.dh + 1),
        columns((c.ow - 1) * c.sw + (c.kw - 1) * c.dw + 1),
        channels(channels_),
        cells(size_t(rows) * columns * channels, 0.0),
        real(size_t(rows) * columns, 0) {
    for (int y = 0; y < int(c.ih); ++y)
      for (int x = 0; x < int(c.iw); ++x) {
        const int py = y + c.pad_t, px = x + c.pad_l;
        if (py < 0 || px < 0 || py >= rows || px >= columns) continue;
        real[py * columns + px] = 1;
        for (int i = 0; i < channels; ++i)
          cells[(size_t(py) * columns + px) * channels + i] = image[(size_t(y) * c.iw + x) * channels + i];
      }
  }
  double at(int y, int x, int i) const { return cells[(size_t(y) * columns + x) * channels + i]; }
  bool inside(int y, int x) const { return real[y * columns + x]; }
};

/// What a result may be: `value` give or take `error`.
struct Expected {
  std::vector<double> value, error;
};

Expected expect(const ConvCase &t);
Expected expect(const MatmulCase &t);
/// f(x) for UNARY, or a fused activation of a value known up to `error`. What only UNARY has takes an exact value;
/// where its result is exact, too, `error` stays 0, and the result has the sign of a zero.
void apply(uint8_t act, double a, double b, double &value, double &error);

/// Fails the test, naming `what`, at the first element outside.
void expect_near(const Expected &want, const Values &got, const std::string &what);

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_ORACLE_H
