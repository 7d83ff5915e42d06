#pragma once

// The messages of a chat's body.

#include "instruments/serve/api/fields.h"
#include "instruments/serve/chat_template.h"

namespace serve {

/// Fields "messages", "add_generation_prompt" and "chat_template_kwargs". Throws ApiError.
Conversation parse_conversation(Fields& fields);

}  // namespace serve
