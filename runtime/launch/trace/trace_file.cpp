// SPDX-License-Identifier: MIT
#include "runtime/launch/trace/trace_file.h"

#include <cerrno>
#include <cstring>

namespace npurt {

namespace {

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", v);
  return text;
}

std::string place(Track t) { return "\"pid\":" + std::to_string(t.process) + ",\"tid\":" + std::to_string(t.thread); }

}  // namespace

std::string json_string(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

Status TraceFile::create(const std::string &path, std::unique_ptr<TraceFile> &out) {
  FILE *const file = std::fopen(path.c_str(), "w");
  if (!file) return Status::error(path + ": " + std::strerror(errno));
  out.reset(new TraceFile(file));
  std::fputs("[", file);
  return {};
}

TraceFile::~TraceFile() {
  std::fputs("\n]\n", file_);
  std::fclose(file_);
}

/// Called with mutex_ held.
void TraceFile::event(const std::string &text) {
  std::fprintf(file_, "%s\n%s", empty_ ? "" : ",", text.c_str());
  empty_ = false;
}

void TraceFile::name(Track track, const std::string &process, const std::string &thread) {
  std::lock_guard lock(mutex_);
  if (named_.insert({track.process, -1}).second)
    event("{\"ph\":\"M\",\"name\":\"process_name\"," + place({track.process, 0}) +
          ",\"args\":{\"name\":" + json_string(process) + "}}");
  if (named_.insert({track.process, track.thread}).second)
    event("{\"ph\":\"M\",\"name\":\"thread_name\"," + place(track) + ",\"args\":{\"name\":" + json_string(thread) +
          "}}");
}

void TraceFile::slice(Track track, const char *category, const std::string &name, double begin, double end,
                      const std::string &args) {
  std::lock_guard lock(mutex_);
  event("{\"ph\":\"X\",\"cat\":" + json_string(category) + ",\"name\":" + json_string(name) + "," + place(track) +
        ",\"ts\":" + number(begin) + ",\"dur\":" + number(end - begin) + ",\"args\":{" + args + "}}");
}

void TraceFile::counter(int64_t process, const std::string &name, const char *unit, double at, double value) {
  std::lock_guard lock(mutex_);
  event("{\"ph\":\"C\",\"cat\":\"counter\",\"name\":" + json_string(name) + "," + place({process, 0}) +
        ",\"ts\":" + number(at) + ",\"args\":{" + json_string(unit) + ":" + number(value) + "}}");
}

void TraceFile::arrow(uint64_t id, Track from, double at, Track to, double arrival) {
  const std::string common = "\"cat\":\"launch\",\"name\":\"launch\",\"id\":" + std::to_string(id) + ",";
  std::lock_guard lock(mutex_);
  event("{\"ph\":\"s\"," + common + place(from) + ",\"ts\":" + number(at) + "}");
  event("{\"ph\":\"f\",\"bp\":\"e\"," + common + place(to) + ",\"ts\":" + number(arrival) + "}");
}

}  // namespace npurt
