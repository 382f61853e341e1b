// SPDX-License-Identifier: MIT
// From jobs as programs describe them to the driver's structures.
#ifndef NPU_SUBMISSION_H
#define NPU_SUBMISSION_H

#include <npu.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace npu {

/// Entries without values of their own; fewer or more of them cost nothing but what is allocated for the most.
template <typename T>
class Room {
 public:
  void resize(size_t size) {
    if (size > capacity_) grow(size);
    size_ = size;
  }
  T *data() { return entries_.get(); }
  const T *begin() const { return entries_.get(); }
  const T *end() const { return begin() + size_; }
  const T &back() const { return end()[-1]; }
  bool empty() const { return size_ == 0; }

 private:
  void grow(size_t size) {
    entries_.reset(new T[size]);
    capacity_ = size;
  }

  std::unique_ptr<T[]> entries_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

/// What the driver reads at submission; pointers lead from one array to the other, so it is not copied. Streams stay
/// where the program has them. Filled again it allocates nothing that it has had before.
struct Submission {
  Submission() = default;
  Submission(const Submission &) = delete;
  Submission &operator=(const Submission &) = delete;

  drm_npu_submit args{};  ///< leads to jobs
  Room<drm_npu_job> jobs;
  Room<drm_npu_region> regions;  ///< of all jobs, one after another
  Room<drm_npu_sync> in;         ///< likewise
  Room<drm_npu_sync> out;
  drm_npu_stream empty{};           ///< of cancelled jobs
  std::vector<uint64_t> cancelled;  ///< numbers of jobs that go to the card empty: an in-fence has failed already
};

/// Fills a submission; the jobs' numbers are those that follow the context's last. `caller` begins the text of
/// an error. Nobody else submits to the context from here until submission_done() or submission_failed().
int submission_prepare(const char *caller, npu_context *context, const npu_job_desc *jobs, unsigned int count,
                       Submission &submission);
/// The driver has queued the jobs, and their numbers stand in the submission.
void submission_done(npu_context *context, const Submission &submission);
/// The driver has queued nothing.
void submission_failed(npu_context *context, const Submission &submission);
/// Why the driver refused a submission.
const char *submission_error(int error);

/// The job was cancelled at submission; for the last 256 of those of a context.
bool was_cancelled(npu_context *context, uint64_t seqno);

}  // namespace npu

#endif  // NPU_SUBMISSION_H
