// SPDX-License-Identifier: MIT
// Spelling: the name that a mistyped word means. Needs nothing but the standard library.
#ifndef NPU_COMMON_NEAREST_H
#define NPU_COMMON_NEAREST_H

#include <algorithm>
#include <string_view>
#include <vector>

namespace npu {

/// The number of letters to insert, delete, replace or swap with the next one that turns `a` into `b`.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      rows[i][j] = std::min({replaced, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  return rows[a.size()][b.size()];
}

}  // namespace npu

#endif  // NPU_COMMON_NEAREST_H
