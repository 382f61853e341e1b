// SPDX-License-Identifier: MIT
// Metrics over HTTP, by libmicrohttpd, in the program's only thread: a request at a time looks at the cards.
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>

#include "tools/npu-smi/report.h"

namespace npu::smi {
namespace {

constexpr char kHere[] = "127.0.0.1";
constexpr char kType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPage[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><title>npu-smi exporter</title>"
    "<p>NPU cards of this machine: <a href=\"/metrics\">metrics</a></p></html>\n";
constexpr int kBacklog = 16;
constexpr unsigned int kConnections = 32, kIdleSeconds = 10;
constexpr int kTurn_ms = 500;  // between two looks whether to stop, if no signal ends the waiting

/// "HOST:PORT", "[HOST]:PORT", ":PORT" or "PORT"; without a host it is this machine only.
bool parse(const std::string &address, std::string &host, std::string &port) {
  const size_t colon = address.rfind(':');
  host = colon == address.npos ? "" : address.substr(0, colon);
  port = colon == address.npos ? address : address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos)
    return false;
  if (host.empty()) host = kHere;
  unsigned int number = 0;
  const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc() && rest == port.data() + port.size() && number <= 65535;
}

Status refuse(const std::string &address, int code, const std::string &why) {
  return Status::error(code, "--listen " + address + ": " + why);
}

struct FreeAddresses {
  void operator()(addrinfo *list) const { freeaddrinfo(list); }
};

/// A listening socket; `address` becomes the one that it has got.
Status listen_on(std::string &address, int &fd) {
  std::string host, port;
  if (!parse(address, host, port))
    return refuse(address, -EINVAL, "expected ADDRESS:PORT, as 127.0.0.1:9400 or [::1]:9400");
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list))
    return refuse(address, -EINVAL, "'" + host + "' is no numeric IPv4 or IPv6 address");
  const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
  const int yes = 1;
  fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return refuse(address, -errno, strerror(errno));
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, kBacklog)) {
    const int error = errno;
    close(fd);
    return refuse(address, -error, strerror(error));
  }
  sockaddr_storage got{};
  socklen_t length = sizeof(got);
  char name[NI_MAXHOST], service[NI_MAXSERV];
  getsockname(fd, reinterpret_cast<sockaddr *>(&got), &length);
  getnameinfo(reinterpret_cast<sockaddr *>(&got), length, name, sizeof(name), service, sizeof(service),
              NI_NUMERICHOST | NI_NUMERICSERV);
  address = (got.ss_family == AF_INET6 ? "[" + std::string(name) + "]" : std::string(name)) + ":" + service;
  return {};
}

struct Answer {
  unsigned int code = MHD_HTTP_OK;
  std::string type = "text/plain; charset=utf-8";
  std::string text;
};

struct Server {
  std::string version;
  std::map<unsigned int, Card> known;  ///< cards as they were when they answered last: names only
};

/// A card that does not answer keeps its names, and so its series.
void name_lost(Card &card, std::map<unsigned int, Card> &known) {
  if (card.chip.empty()) {
    const auto it = known.find(card.index);
    if (it == known.end()) return;
    card.chip = it->second.chip;
    card.bus = it->second.bus;
    card.transport = it->second.transport;
    return;
  }
  Card &names = known[card.index];
  names.chip = card.chip;
  names.bus = card.bus;
  names.transport = card.transport;
}

/// A machine without a card has none, which is worth knowing; what keeps us from looking is no measurement.
Answer answer_metrics(Server &server) {
  Report report;
  const Status status = collect({.window_ms = 0, .stop = {}, .all_lost = true}, report);
  if (!status.ok() && status.code() != -ENODEV)
    return {.code = MHD_HTTP_SERVICE_UNAVAILABLE, .text = status.message() + "\n"};
  for (Card &card : report.cards) name_lost(card, server.known);
  return {.type = kType, .text = metrics(report, server.version)};
}

Answer answer_to(const std::string &method, const std::string &path, Server &server) {
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .text = "GET and HEAD only\n"};
  if (path == "/metrics") return answer_metrics(server);
  if (path == "/") return {.type = "text/html; charset=utf-8", .text = kPage};
  return {.code = MHD_HTTP_NOT_FOUND, .text = "there is /metrics\n"};
}

/// Called when the head of a request is there, for each piece of its body, which is not looked at, and at its end.
MHD_Result handle(void *arg, MHD_Connection *connection, const char *url, const char *method, const char *,
                  const char *, size_t *body, void **state) {
  static char begun;
  if (!*state) {
    *state = &begun;
    return MHD_YES;
  }
  if (*body) {
    *body = 0;
    return MHD_YES;
  }
  Answer answer;
  try {
    answer = answer_to(method, url, *static_cast<Server *>(arg));
  } catch (const std::exception &e) {  // no exception gets through the library's functions of C
    answer = {.code = MHD_HTTP_INTERNAL_SERVER_ERROR, .text = std::string(e.what()) + "\n"};
  }
  MHD_Response *response = MHD_create_response_from_buffer(answer.text.size(), const_cast<char *>(answer.text.data()),
                                                           MHD_RESPMEM_MUST_COPY);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
  if (answer.code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(connection, answer.code, response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

Status serve(const std::string &wanted, const std::string &version, const std::function<bool()> &stop) {
  std::string address = wanted;
  Server server{version, {}};
  int fd = -1;
  if (Status status = listen_on(address, fd); !status.ok()) return status;
  signal(SIGPIPE, SIG_IGN);
  // It owns the socket from here on.
  MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, handle, &server, MHD_OPTION_LISTEN_SOCKET,
                                        fd, MHD_OPTION_CONNECTION_LIMIT, kConnections, MHD_OPTION_CONNECTION_TIMEOUT,
                                        kIdleSeconds, MHD_OPTION_END);
  if (!daemon) return refuse(address, -EIO, "the HTTP server cannot be started");
  fprintf(stderr, "npu-smi: serving http://%s/metrics\n", address.c_str());
  while (!stop()) MHD_run_wait(daemon, kTurn_ms);
  MHD_stop_daemon(daemon);
  return {};
}

}  // namespace npu::smi
