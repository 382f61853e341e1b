// SPDX-License-Identifier: MIT
// From jobs as programs describe them to the driver's structures.
#ifndef NPU_SUBMISSION_H
#define NPU_SUBMISSION_H

#include <npu.h>

#include <vector>

namespace npu {

/// What the driver reads at submission; pointers lead from one array to the other, so it is not copied. Streams stay
/// where the program has them. Filled again it allocates nothing that it has had before.
struct Submission {
  Submission() = default;
  Submission(const Submission &) = delete;
  Submission &operator=(const Submission &) = delete;

  drm_npu_submit args{};  ///< leads to jobs
  std::vector<drm_npu_job> jobs;
  std::vector<drm_npu_region> regions;  ///< of all jobs, one after another
  std::vector<drm_npu_sync> in;         ///< likewise
  std::vector<drm_npu_sync> out;
  std::vector<drm_npu_stream> empty;  ///< of cancelled jobs
  std::vector<uint64_t> cancelled;    ///< numbers of jobs that go to the card empty: an in-fence has failed already
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
