//! JSON-RPC messages (RFC 7047, section 4; JSON-RPC 1.0).

use serde_json::{Value, json};

use crate::value::shortened;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The bytes are no JSON.
    #[error("a message of the database server is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON is neither a request nor an answer.
    #[error("a message of the database server is neither a request nor an answer: {0}")]
    Form(String),
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request that needs an answer with the same id.
    Request {
        /// The id, chosen by the sender.
        id: Value,
        /// The name of the method.
        method: String,
        /// The method's arguments.
        params: Value,
    },
    /// A message that needs no answer.
    Notification {
        /// The name of the method.
        method: String,
        /// The method's arguments.
        params: Value,
    },
    /// The answer to a request.
    Answer {
        /// The id of the request.
        id: Value,
        /// The result, or the error as the server sent it.
        result: Result<Value, Value>,
    },
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are no JSON, or no message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut json: Value = serde_json::from_slice(bytes)?;
        let form = || MessageError::Form(shortened(&String::from_utf8_lossy(bytes)));
        if !json.is_object() {
            return Err(form());
        }
        let (id, error) = (json["id"].take(), json["error"].take());
        match json["method"].take() {
            Value::String(method) => {
                let params = json["params"].take();
                Ok(match id {
                    Value::Null => Message::Notification { method, params },
                    id => Message::Request { id, method, params },
                })
            }
            Value::Null if !id.is_null() => {
                let result = if error.is_null() { Ok(json["result"].take()) } else { Err(error) };
                Ok(Message::Answer { id, result })
            }
            _ => Err(form()),
        }
    }

    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = match self {
            Message::Request { id, method, params } => json!({"id": id, "method": method, "params": params}),
            Message::Notification { method, params } => {
                json!({"id": null, "method": method, "params": params})
            }
            Message::Answer { id, result: Ok(result) } => json!({"id": id, "result": result, "error": null}),
            Message::Answer { id, result: Err(error) } => json!({"id": id, "result": null, "error": error}),
        };
        json.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_and_others_are_refused() {
        let (id, method, params) = (json!("echo"), "echo".to_owned(), json!([1]));
        for message in [
            Message::Request { id: id.clone(), method: method.clone(), params: params.clone() },
            Message::Notification { method, params },
            Message::Answer { id: id.clone(), result: Ok(json!({})) },
            Message::Answer { id, result: Err(json!("unknown method")) },
        ] {
            assert_eq!(Message::from_bytes(&message.to_bytes()).unwrap(), message);
        }
        for (bytes, said) in [
            (&b"{}"[..], "neither a request nor an answer"),
            (b"7", "neither"),
            (b"{\"id\":null,\"result\":1}", "neither"),
            (b"{\"id\":1,\"method\":2}", "neither"),
            (b"{\"id\":1e999}", "no JSON"),
            (b"{]", "no JSON"),
            (b"{\"\xff\":1}", "no JSON"),
        ] {
            let error = Message::from_bytes(bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
