#ifndef ACCEL_CLIENT_CLI_OUTPUT_H_
#define ACCEL_CLIENT_CLI_OUTPUT_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "google/protobuf/message.h"

namespace accel::cli {

// One message as a document of JSON or YAML; not for kTable.
void PrintMessage(std::ostream& out, OutputFormat format, const google::protobuf::Message& message);

// All pages of a List method as one answer: a document with the list under `field`, also when it is
// empty.
void PrintList(std::ostream& out, OutputFormat format, const std::string& field,
               const std::vector<const google::protobuf::Message*>& messages);

// One row of a stream: a line of JSON, or a YAML document after `---`. Flushes.
void PrintRow(std::ostream& out, OutputFormat format, const google::protobuf::Message& message);

// A message as lines of `path  value` (`loop.num_epochs  2`), for people.
void PrintFields(std::ostream& out, const google::protobuf::Message& message, bool color);

template <typename Message>
std::vector<const google::protobuf::Message*> Pointers(const std::vector<Message>& messages) {
  std::vector<const google::protobuf::Message*> pointers;
  for (const Message& message : messages) pointers.push_back(&message);
  return pointers;
}

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_OUTPUT_H_
