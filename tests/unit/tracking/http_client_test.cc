#include "core/tracking/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::tracking {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Takes one connection on loopback and lets `serve` have it.
class OneConnection {
 public:
  explicit OneConnection(std::function<void(int)> serve) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    listener_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this, serve = std::move(serve)] {
      const Fd connection(accept(listener_.get(), nullptr, nullptr));
      serve(connection.get());
    });
  }
  ~OneConnection() { thread_.join(); }

  const std::string& url() const { return url_; }

 private:
  Fd listener_;
  std::string url_;
  std::thread thread_;
};

// A request of which the last byte is known.
std::string ReadUntil(int fd, absl::string_view end) {
  std::string text;
  char byte;
  while (!absl::EndsWith(text, end) && read(fd, &byte, 1) == 1) text.push_back(byte);
  return text;
}

void Answer(int fd, const std::string& text) {
  EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

TEST(HttpClientTest, SendsTheRequestAndReadsTheAnswer) {
  std::string request;
  OneConnection server([&](int fd) {
    request = ReadUntil(fd, "end");
    Answer(fd, "HTTP/1.1 429 Too many\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno");
  });
  const auto client = HttpClient::Make();
  const auto response =
      client->Send({"POST", server.url() + "/a?b=c", {"X-Token: t"}, std::string("\0\nend", 5)});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->headers.at("retry-after"), "3");
  EXPECT_EQ(response->body, "no");
  EXPECT_THAT(request, HasSubstr("POST /a?b=c HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("X-Token: t\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(request, Not(HasSubstr("Expect")));
}

TEST(HttpClientTest, RedirectsAreAnswersLikeOthers) {
  OneConnection server([](int fd) {
    ReadUntil(fd, "\r\n\r\n");
    Answer(fd, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n");
  });
  const auto response = HttpClient::Make()->Send({"GET", server.url(), {"Authorization: x"}, ""});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 302);
}

TEST(HttpClientTest, AnAnswerThatBreaksOffIsNone) {
  for (const char* const start : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"}) {
    OneConnection server([&](int fd) {
      ReadUntil(fd, "\r\n\r\n");
      Answer(fd, start);
    });
    EXPECT_TRUE(
        absl::IsUnavailable(HttpClient::Make()->Send({"GET", server.url(), {}, ""}).status()));
  }
}

TEST(HttpClientTest, WaitsAreLimitedAndTextsNameThePlaceOnly) {
  HttpOptions options;
  options.timeout = absl::Milliseconds(50);
  // Until the client has gone.
  OneConnection server([](int fd) { ReadUntil(fd, "never"); });
  std::string url = server.url();
  url.insert(url.find("//") + 2, "user:password@");
  const absl::Status late =
      HttpClient::Make(options)->Send({"GET", url + "/path?key=secret", {}, ""}).status();
  EXPECT_TRUE(absl::IsUnavailable(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr(server.url() + "/path: "));
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("secret")));
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("password")));
}

TEST(HttpClientTest, AnswersThatAreTooLongAndOtherProtocolsAreErrors) {
  HttpOptions options;
  options.max_response_bytes = 3;
  OneConnection server([](int fd) {
    ReadUntil(fd, "\r\n\r\n");
    Answer(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlong");
  });
  EXPECT_FALSE(HttpClient::Make(options)->Send({"GET", server.url(), {}, ""}).ok());
  const absl::Status file =
      HttpClient::Make()->Send({"GET", "file:///etc/passwd", {}, ""}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(file)) << file;
}

TEST(PercentEncodeTest, EverythingButUnreserved) {
  EXPECT_EQ(PercentEncode("aZ09-_.~ /'\xc3\xa4"), "aZ09-_.~%20%2F%27%C3%A4");
}

}  // namespace
}  // namespace accel::tracking
