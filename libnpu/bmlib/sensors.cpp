// SPDX-License-Identifier: MIT
// What the card measures.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "libnpu/bmlib/handle.h"

using namespace npu::bm;

namespace {

constexpr uint32_t kKhz = 1000;
constexpr uint32_t kLowestClock = 4;  // the nominal clock's part, docs/reference/hardware.md section 2.3

uint32_t rounded(uint32_t milli) { return (milli + 500) / 1000; }

/// An answer from the sensors: *out = take(status).
template <typename Answer, typename Take>
bm_status_t sense(const char *where, bm_handle_t handle, Answer *out, Take take) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!out) return npu_bm_status(fail(-EINVAL, "no place for the answer"), where);
  drm_npu_status_info status{};
  const int err = npu_device_status(h->npu(), &status);
  if (!err) *out = static_cast<Answer>(take(status));
  return npu_bm_status(err, where);
}

bm_status_t nominal_clock(const char *where, bm_handle_t handle, unsigned int *mhz, uint32_t part) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  if (!mhz) return npu_bm_status(fail(-EINVAL, "no place for the answer"), where);
  drm_npu_dev_info info{};
  const int err = npu_device_info(h->npu(), &info);
  if (!err) *mhz = info.clock_khz / part / kKhz;
  return npu_bm_status(err, where);
}

}  // namespace

bm_status_t bm_get_chip_temp(bm_handle_t handle, unsigned int *chip_temp) {
  return sense(__func__, handle, chip_temp, [](const drm_npu_status_info &s) {
    return rounded(static_cast<uint32_t>(std::max<int32_t>(s.temperature_mc, 0)));
  });
}

bm_status_t bm_get_board_power(bm_handle_t handle, unsigned int *boardp) {
  return sense(__func__, handle, boardp, [](const drm_npu_status_info &s) { return rounded(s.power_mw); });
}

bm_status_t bm_get_tpu_volt(bm_handle_t handle, unsigned int *tpu_volt) {
  return sense(__func__, handle, tpu_volt, [](const drm_npu_status_info &s) { return s.voltage_mv; });
}

bm_status_t bm_get_fan_speed(bm_handle_t handle, unsigned int *fan) {
  return sense(__func__, handle, fan, [](const drm_npu_status_info &s) { return s.fan_rpm; });
}

bm_status_t bm_get_ecc_correct_num(bm_handle_t handle, uint64_t *ecc_correct_num) {
  return sense(__func__, handle, ecc_correct_num, [](const drm_npu_status_info &s) { return s.ecc_corrected; });
}

bm_status_t bm_get_clk_tpu_freq(bm_handle_t handle, int *freq) {
  return sense(__func__, handle, freq, [](const drm_npu_status_info &s) { return s.clock_khz / kKhz; });
}

bm_status_t bm_get_tpu_maxclk(bm_handle_t handle, unsigned int *tpu_maxclk) {
  return nominal_clock(__func__, handle, tpu_maxclk, 1);
}

bm_status_t bm_get_tpu_minclk(bm_handle_t handle, unsigned int *tpu_minclk) {
  return nominal_clock(__func__, handle, tpu_minclk, kLowestClock);
}

bm_status_t bm_get_status(bm_handle_t handle, int *status) {
  constexpr int kGone = 1 << 1;
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!status) return npu_bm_status(fail(-EINVAL, "no place for the answer"), __func__);
  drm_npu_status_info info{};
  const int err = npu_device_status(h->npu(), &info);
  if (err && err != -ENODEV) return npu_bm_status(err, __func__);
  *status = err ? kGone : 0;
  return BM_SUCCESS;
}

bm_status_t bmdev_get_idle_coreid(bm_handle_t handle, int *core_id) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!core_id) return npu_bm_status(fail(-EINVAL, "no place for the answer"), __func__);
  drm_npu_dev_info info{};
  drm_npu_status_info status{};
  int err = npu_device_info(h->npu(), &info);
  if (!err) err = npu_device_status(h->npu(), &status);
  if (err) return npu_bm_status(err, __func__);
  const int lowest = std::countr_one(status.core_busy);
  *core_id = lowest < static_cast<int>(info.cores) ? lowest : 0;
  return BM_SUCCESS;
}
