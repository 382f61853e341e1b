// SPDX-License-Identifier: MIT
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "libnpu/src/async.h"
#include "libnpu/src/internal.h"

namespace npu {
namespace {

constexpr char kCaller[] = "npu_async_submit";
constexpr char kDestroyed[] = "npu_async_submit: the queue was destroyed before the launch was finished";
constexpr int64_t kNsPerSecond = 1000000000;

/// Counts forks: cheaper to look at than getpid().
std::atomic<unsigned int> generation{0};

unsigned int this_process() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { generation++; });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

bool is_one_of(const std::vector<uint64_t> &numbers, uint64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

// ---- life ----

AsyncQueue::AsyncQueue(npu_device *device) : device_(npu_device_ref(device)), process_(this_process()) {}

AsyncQueue::~AsyncQueue() {
  backend_.reset();
  if (event_ >= 0) ::close(event_);
  npu_device_close(device_);
}

bool AsyncQueue::is_of_parent() const { return process_ != this_process(); }

int AsyncQueue::open(uint32_t how) {
  event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_ < 0) return fail(-errno, "npu_async_create: eventfd: %s", strerror(errno));
  return choose(how);
}

int AsyncQueue::choose(uint32_t how) {
  const char *const text = getenv("NPU_ASYNC");
  const std::string wish = how != NPU_ASYNC_AUTO || !text || !*text ? "auto" : text;
  if (wish != "auto" && wish != "uring" && wish != "threads")
    return fail(-EINVAL, "NPU_ASYNC=%s: expected auto, uring or threads", wish.c_str());
  if (wish == "uring") how = NPU_ASYNC_URING;
  if (wish == "threads") how = NPU_ASYNC_THREADS;
  if (how != NPU_ASYNC_THREADS) {
    const Status opened = async_uring(*this, backend_);
    if (opened.ok()) return 0;
    if (how == NPU_ASYNC_URING)
      return fail(-EOPNOTSUPP, "npu_async_create: no launches through io_uring: %s", opened.message().c_str());
    log(NPU_LOG_DEBUG, "asynchronous launches by threads: %s", opened.message().c_str());
  }
  backend_ = async_threads(*this);
  return 0;
}

void AsyncQueue::close() {
  Lock lock(mutex_);
  closed_ = true;
  backend_->stop(unknown_, lock);
  number_is_known();  // what has it by now is in the context's book
  pending_.clear();
  for (const auto &seat : left_) abandon(*seat);
  for (const auto &[context, seat] : seats_) abandon(*seat);
  // Callbacks may destroy contexts.
  while (deliver(lock)) continue;
  for (const auto &[context, seat] : seats_) {
    std::lock_guard context_lock(context->submit_mutex);
    std::erase_if(context->async_queues, [this](const auto &queue) { return queue.get() == this; });
  }
  seats_.clear();
}

/// What is unfinished is so for good.
void AsyncQueue::abandon(AsyncSeat &seat) {
  for (const auto &launch : seat.order) {
    if (launch->finished) continue;
    launch->completion.seqno = launch->number();
    launch->completion.error = -ECANCELED;
    launch->text = kDestroyed;
    launch->finished = true;
  }
  if (!seat.order.empty()) complete(*seat.order.front());
}

// ---- submission ----

int AsyncQueue::submit(npu_context *context, const npu_job_desc *jobs, unsigned int count, npu_async_fn fn, void *arg) {
  auto launch = std::make_unique<AsyncLaunch>();
  launch->fn = fn;
  launch->arg = arg;
  launch->completion.context = context;
  const bool good = launch->copy(jobs, count);
  AsyncLaunch &entered = *launch;
  Lock lock(mutex_);
  if (closed_) return fail(-ECANCELED, "%s: the queue is being destroyed", kCaller);
  pending_.push_back(&entered);
  const int err = enter(context, launch);
  if (err || !good) pending_.pop_back();
  if (err) return err;
  if (good)
    hand_over();
  else
    complete(entered);
  return 0;
}

/// The launch takes its place; the context becomes this queue's, until none is unfinished.
int AsyncQueue::enter(npu_context *context, std::unique_ptr<AsyncLaunch> &launch) {
  const auto known = seats_.find(context);
  std::shared_ptr<AsyncSeat> seat = known == seats_.end() ? nullptr : known->second;
  std::unique_lock<std::mutex> context_lock;
  if (!seat || !seat->unfinished) {
    context_lock = std::unique_lock(context->submit_mutex, std::try_to_lock);
    if (!context_lock) return fail(-EBUSY, "%s: another thread is submitting to this context", kCaller);
    if (context->async_launches.load(std::memory_order_acquire))
      return fail(-EBUSY, "%s: another npu_async has unfinished launches in this context", kCaller);
    if (!seat) seat = sit_down(context);
  }
  launch->seat = seat;
  seat->order.push_back(std::move(launch));
  seat->unfinished++;
  context->async_launches.fetch_add(1, std::memory_order_relaxed);
  unfinished_++;
  return 0;
}

/// The context's submit_mutex is held.
std::shared_ptr<AsyncSeat> AsyncQueue::sit_down(npu_context *context) {
  const auto seat = std::make_shared<AsyncSeat>();
  seat->context = context;
  seat->link = context->link;
  context->async_queues.push_back(shared_from_this());
  seats_[context] = seat;
  return seat;
}

void AsyncQueue::hand_over() {
  while (!pending_.empty() && number_is_known() && may_start(*pending_.front())) {
    AsyncLaunch &launch = *pending_.front();
    pending_.pop_front();
    start(launch);
  }
}

/// Of the launch that was started last. The context's book is then up to date.
bool AsyncQueue::number_is_known() {
  if (!unknown_) return true;
  if (!unknown_->number()) return false;
  if (npu_context *const context = unknown_->seat->context) submission_done(context, unknown_->submission);
  unknown_ = nullptr;
  return true;
}

/// Whether the driver would queue it at once.
bool AsyncQueue::may_start(AsyncLaunch &launch) {
  AsyncSeat &seat = *launch.seat;
  const uint64_t submitted = seat.context->submitted.load(), limit = seat.link.max_in_flight;
  const uint64_t wanted = submitted + launch.completion.count;
  if (backend_->full()) return false;
  // More than ever fits is the driver's to refuse.
  if (launch.completion.count > limit || wanted <= seat.completed + limit) return true;
  seat.completed = std::max(seat.completed, read_fence_page(seat.link.fence_page).seqno);
  if (wanted <= seat.completed + limit) return true;
  // One of our own will make room; else these are jobs of npu_submit().
  return !seat.in_driver && backend_->start_without_room(launch.seat, wanted - limit);
}

void AsyncQueue::start(AsyncLaunch &launch) {
  npu_context *const context = launch.seat->context;
  try {
    if (int err = submission_prepare(kCaller, context, launch.jobs.data(), launch.completion.count, launch.submission))
      return refuse(launch, err, npu_last_error());
  } catch (const std::bad_alloc &) {
    return refuse(launch, -ENOMEM, "npu_async_submit: not enough memory");
  }
  launch.seat->in_driver++;
  unknown_ = &launch;
  backend_->start(launch);
  number_is_known();
}

void AsyncQueue::refuse(AsyncLaunch &launch, int error, const char *text) {
  launch.completion.error = error;
  launch.text = text;
  complete(launch);
}

// ---- completion ----

void AsyncQueue::finished(AsyncLaunch &launch, int error) {
  AsyncSeat &seat = *launch.seat;
  seat.in_driver--;
  const bool was_unknown = unknown_ == &launch;
  if (was_unknown && !number_is_known()) {
    unknown_ = nullptr;
    if (seat.context) submission_failed(seat.context, launch.submission);
    return not_submitted(launch, error);
  }
  launch.completion.seqno = launch.number();
  seat.completed = std::max(seat.completed, launch.completion.seqno);
  if (error || !launch.submission.cancelled.empty()) find_error(launch, error);
  complete(launch);
}

void AsyncQueue::not_submitted(AsyncLaunch &launch, int error) {
  if (closed_) return refuse(launch, -ECANCELED, kDestroyed);
  if (!launch.seat->context) return refuse(launch, -ECANCELED, "npu_async_submit: the context was destroyed");
  if (error == -EINTR) {
    // A worker of the kernel was disturbed, by a system that goes to sleep for example. Next is still this one.
    pending_.push_front(&launch);
    return wake();
  }
  std::string text = kCaller;
  text.append(": ").append(submission_error(error));
  refuse(launch, error, text.c_str());
}

/// The first of the jobs that failed. `error` is what is known without asking.
void AsyncQueue::find_error(AsyncLaunch &launch, int error) {
  launch.completion.error = error;
  for (const drm_npu_job &job : launch.submission.jobs) {
    drm_npu_wait args{};
    args.ctx_id = launch.seat->link.id;
    args.seqno = job.seqno;
    if (is_one_of(launch.submission.cancelled, job.seqno))
      args.error = -ECANCELED;
    else if (!launch.seat->context || call(device_, DRM_IOCTL_NPU_WAIT, &args) || !args.known)
      continue;
    if (!args.error) continue;
    launch.completion.error = args.error;
    launch.completion.fault = args.fault;
    return;
  }
}

/// Callbacks of a context come in order: what has finished out of turn waits.
void AsyncQueue::complete(AsyncLaunch &launch) {
  const std::shared_ptr<AsyncSeat> seat = launch.seat;
  launch.finished = true;
  bool any = false;
  for (; !seat->order.empty() && seat->order.front()->finished; any = true) {
    done_.splice(done_.end(), seat->order, seat->order.begin());
  }
  if (any) wake();
}

void AsyncQueue::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
}

int AsyncQueue::process(unsigned int max, int64_t timeout_ns) {
  const int64_t deadline = deadline_of(timeout_ns);
  Lock lock(mutex_);
  for (;;) {
    uint64_t events;
    [[maybe_unused]] const ssize_t got = read(event_, &events, sizeof(events));
    if (!closed_) {
      backend_->reap();
      hand_over();
    }
    const size_t ready = max ? std::min<size_t>(max, done_.size()) : done_.size();
    unsigned int called = 0;
    while (called < ready && deliver(lock)) called++;
    // There may be more to do for the next call; and nothing is left to wait for others, who have to be told.
    if (!done_.empty() || (!unfinished_ && waiting_)) wake();
    if (called || !unfinished_) return static_cast<int>(called);
    waiting_++;
    lock.unlock();
    const bool in_time = wait(deadline);
    lock.lock();
    waiting_--;
    if (!in_time) return 0;
  }
}

/// For the descriptor; false when the time is over.
bool AsyncQueue::wait(int64_t deadline) const {
  pollfd entry{event_, POLLIN, 0};
  const int64_t left = deadline - now_ns();
  if (left <= 0) return false;
  const timespec limit{static_cast<time_t>(left / kNsPerSecond), static_cast<long>(left % kNsPerSecond)};
  // A signal is no reason to give up, and a look costs nothing.
  return ppoll(&entry, 1, deadline == INT64_MAX ? nullptr : &limit, nullptr) != 0;
}

bool AsyncQueue::deliver(Lock &lock) {
  if (done_.empty()) return false;
  const std::unique_ptr<AsyncLaunch> launch = std::move(done_.front());
  done_.pop_front();
  // The last one leaves the context to others.
  launch->seat->unfinished--;
  if (launch->seat->context) launch->seat->context->async_launches.fetch_sub(1, std::memory_order_release);
  lock.unlock();
  launch->release();
  unfinished_--;
  if (!launch->text.empty()) fail(launch->completion.error, "%s", launch->text.c_str());
  if (launch->fn) launch->fn(launch->arg, &launch->completion);
  lock.lock();
  return true;
}

// ---- contexts that end ----

std::shared_ptr<AsyncSeat> AsyncQueue::forget(npu_context *context) {
  Lock lock(mutex_);
  const auto found = seats_.find(context);
  if (found == seats_.end()) return nullptr;
  const std::shared_ptr<AsyncSeat> seat = found->second;
  seats_.erase(found);
  std::erase_if(left_, [](const auto &left) { return left->order.empty(); });
  left_.push_back(seat);
  number_is_known();
  seat->context = nullptr;
  const auto ours = [&](const AsyncLaunch *launch) { return launch->seat == seat; };
  std::vector<AsyncLaunch *> dropped;
  std::copy_if(pending_.begin(), pending_.end(), std::back_inserter(dropped), ours);
  std::erase_if(pending_, ours);
  for (AsyncLaunch *launch : dropped) refuse(*launch, -ECANCELED, "npu_async_submit: the context was destroyed");
  backend_->leave(*seat);
  return seat;
}

void AsyncQueue::forgotten(AsyncSeat &seat) {
  Lock lock(mutex_);
  backend_->left(seat, lock);
  // Somebody may have waited behind its launches.
  wake();
}

AsyncForgotten async_forget(npu_context *context) {
  std::vector<std::shared_ptr<AsyncQueue>> queues;
  {
    std::lock_guard lock(context->submit_mutex);
    queues.swap(context->async_queues);
  }
  AsyncForgotten forgotten;
  for (auto &queue : queues)
    if (auto seat = queue->forget(context)) forgotten.emplace_back(std::move(queue), std::move(seat));
  return forgotten;
}

void async_forgotten(const AsyncForgotten &queues) {
  for (const auto &[queue, seat] : queues) queue->forgotten(*seat);
}

}  // namespace npu
