// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

uint64_t Random::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

namespace {

constexpr uint32_t kMostNodes = 14;
constexpr size_t kHeadNumbers = 24, kNodeNumbers = 32;

std::vector<uint32_t> numbers(Random &random, size_t count) {
  std::vector<uint32_t> out(count);
  for (uint32_t &n : out) n = static_cast<uint32_t>(random.next() >> 32);
  return out;
}

}  // namespace

Plan random_plan(uint64_t seed, Kind kind) {
  Random random(seed);
  Plan plan;
  plan.kind = kind;
  plan.data = random.next();
  plan.head = numbers(random, kHeadNumbers);
  for (uint32_t n = 1 + random.below(kMostNodes); n--;) plan.nodes.push_back(numbers(random, kNodeNumbers));
  return plan;
}

int64_t Choices::below(int64_t n) {
  const uint32_t number = chosen_.size() < numbers_.size() ? numbers_[chosen_.size()] : 0;
  chosen_.push_back(n > 0 ? number % static_cast<uint32_t>(n) : 0);
  return chosen_.back();
}

}  // namespace npu::fuzz
