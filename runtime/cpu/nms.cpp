// SPDX-License-Identifier: MIT
// Non-maximum suppression.
#include <algorithm>

#include "runtime/cpu/element.h"

namespace npu::cpu {

namespace {

struct Box {
  double left, top, right, bottom;
  double area() const { return (right - left) * (bottom - top); }
};

Box read_box(const Tensor &boxes, int64_t index, bool center) {
  double v[4];
  for (int64_t k = 0; k < 4; ++k) v[k] = load(boxes, index * 4 + k);
  if (center) return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

/// Common area by area of both; 0 for boxes without area.
double overlap(const Box &a, const Box &b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0 && height > 0)) return 0;
  return width * height / (a.area() + b.area() - width * height);
}

/// Boxes of one class that are kept, best first.
std::vector<int64_t> choose(const NmsAttrs &attrs, const std::vector<Box> &boxes, const std::vector<double> &scores) {
  std::vector<int64_t> order, kept;
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > static_cast<double>(attrs.score)) order.push_back(static_cast<int64_t>(i));
  const auto at = [](const auto &list, int64_t i) { return list[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return at(scores, a) > at(scores, b); });
  for (const int64_t i : order) {
    if (attrs.per_class && kept.size() == attrs.per_class) break;
    if (std::none_of(kept.begin(), kept.end(),
                     [&](int64_t k) { return overlap(at(boxes, i), at(boxes, k)) > static_cast<double>(attrs.iou); }))
      kept.push_back(i);
  }
  return kept;
}

}  // namespace

void nms(const NmsAttrs &attrs, const Tensor &boxes, const Tensor &scores, Tensor &selected, Tensor &number) {
  const int64_t batches = boxes.shape[0], count = boxes.shape[1], classes = scores.shape[1];
  for (int64_t i = 0; i < selected.count(); ++i) store(selected, i, -1);
  int64_t found = 0;
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<Box> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(read_box(boxes, b * count + i, attrs.center));
    for (int64_t c = 0; c < classes; ++c) {
      std::vector<double> of_class;
      for (int64_t i = 0; i < count; ++i) of_class.push_back(load(scores, (b * classes + c) * count + i));
      for (const int64_t i : choose(attrs, all, of_class)) {
        if (found == selected.shape[0]) break;
        const int64_t row[3] = {b, c, i};
        for (int64_t k = 0; k < 3; ++k) store(selected, found * 3 + k, static_cast<double>(row[k]));
        ++found;
      }
    }
  }
  store(number, 0, static_cast<double>(found));
}

}  // namespace npu::cpu
