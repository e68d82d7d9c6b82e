//! Every misdeed a message can be refused for: one variant each, no catch-all.

use thiserror::Error;

/// The status a client gets when a *response* was malformed, whatever the misdeed.
pub const RESPONSE_STATUS: u16 = 502;

macro_rules! misdeeds {
    ($($(#[doc = $doc:literal])* $variant:ident, $status:literal, $reason:literal, $text:literal;)*) => {
        /// Why a message was refused. After one of these the connection is closed: where the
        /// next message would begin is no longer certain.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
        pub enum Malformed {
            $($(#[doc = $doc])* #[error($text)] $variant,)*
        }

        impl Malformed {
            /// Every variant, for metrics that start at zero and for tests.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The status to answer a malformed *request* with. For a malformed response the
            /// client gets [`RESPONSE_STATUS`].
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// A short stable word for metrics and `l5d-proxy-error`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $reason,)* }
            }
        }
    };
}

misdeeds! {
    /// The head goes on past `head_bytes_max`.
    HeadTooLarge, 431, "head_too_large", "the head is longer than head_bytes_max";
    /// More header lines than `headers_max`.
    HeadersTooMany, 431, "headers_too_many", "the head has more header lines than headers_max";
    /// More `Connection` options than `connection_options_max`.
    ConnectionOptionsTooMany, 431, "connection_options_too_many", "Connection lists more options than connection_options_max";

    /// More than one empty line before the request line (RFC 9112 §2.2 tolerates one).
    LeadingBlankLine, 400, "leading_blank_line", "more than one empty line before the request line";
    /// A line ended by LF without CR.
    BareLf, 400, "bare_lf", "a line ends in LF without CR (RFC 9112 §2.2)";
    /// CR that does not end a line.
    BareCr, 400, "bare_cr", "CR inside a line (RFC 9112 §2.2)";
    /// NUL or another control byte where text belongs.
    ControlByte, 400, "control_byte", "a control byte inside a line (RFC 9110 §5.5)";

    /// The request line is not `method SP target SP version`.
    RequestLineInvalid, 400, "request_line_invalid", "the request line is not method, target and version with one space between (RFC 9112 §3)";
    /// The method is empty or not a token.
    MethodInvalid, 400, "method_invalid", "the method is not a token (RFC 9110 §9.1)";
    /// The target is in none of the four forms, or in one its method does not have.
    TargetInvalid, 400, "target_invalid", "the request target is in no form that its method allows (RFC 9112 §3.2)";
    /// The authority in the target is not `host[:port]`.
    TargetAuthorityInvalid, 400, "target_authority_invalid", "the authority in the request target is not host and port (RFC 9112 §3.2)";
    /// No version: HTTP/0.9.
    VersionMissing, 400, "version_missing", "the request line has no version (HTTP/0.9 is not spoken)";
    /// The version is not `HTTP/digit.digit`.
    VersionInvalid, 400, "version_invalid", "the version is not HTTP/digit.digit (RFC 9112 §2.3)";
    /// A version other than 1.0 and 1.1.
    VersionUnsupported, 505, "version_unsupported", "the version is neither HTTP/1.0 nor HTTP/1.1";
    /// The status line is not `version SP 3DIGIT SP reason`.
    StatusLineInvalid, 400, "status_line_invalid", "the status line is not version, three-digit status and reason (RFC 9112 §4)";

    /// A line that continues the one before, or white space before the first header.
    FoldedLine, 400, "folded_line", "a header line begins with white space (obsolete folding, RFC 9112 §5.2)";
    /// White space between header name and colon.
    SpaceBeforeColon, 400, "space_before_colon", "white space between header name and colon (RFC 9112 §5.1)";
    /// A header line without a colon.
    ColonMissing, 400, "colon_missing", "a header line has no colon (RFC 9112 §5)";
    /// A header line that begins with its colon.
    HeaderNameEmpty, 400, "header_name_empty", "a header line has no name (RFC 9112 §5)";
    /// A header name that is not a token.
    HeaderNameInvalid, 400, "header_name_invalid", "a header name is not a token (RFC 9110 §5.1)";

    /// HTTP/1.1 without Host.
    HostMissing, 400, "host_missing", "an HTTP/1.1 request has no Host (RFC 9112 §3.2)";
    /// More than one Host.
    HostRepeated, 400, "host_repeated", "a request has more than one Host (RFC 9112 §3.2)";
    /// Host is not `host[:port]`.
    HostInvalid, 400, "host_invalid", "Host is not host and port (RFC 9112 §3.2)";

    /// More than one Content-Length line, equal or not.
    ContentLengthRepeated, 400, "content_length_repeated", "more than one Content-Length (RFC 9112 §6.3)";
    /// Content-Length is not a plain decimal number.
    ContentLengthInvalid, 400, "content_length_invalid", "Content-Length is not one decimal number (RFC 9112 §6.3)";
    /// Content-Length does not fit 63 bits.
    ContentLengthOverflow, 400, "content_length_overflow", "Content-Length does not fit 63 bits";
    /// Both Content-Length and Transfer-Encoding.
    LengthAndChunked, 400, "length_and_chunked", "both Content-Length and Transfer-Encoding (RFC 9112 §6.1)";
    /// Transfer-Encoding is not exactly `chunked`.
    TransferEncodingInvalid, 400, "transfer_encoding_invalid", "Transfer-Encoding is not exactly one chunked (RFC 9112 §6.1)";
    /// A well-formed coding before `chunked` that we do not speak.
    TransferCodingUnsupported, 501, "transfer_coding_unsupported", "Transfer-Encoding has a coding other than chunked (RFC 9112 §6.1)";
    /// Transfer-Encoding in an HTTP/1.0 message.
    ChunkedInHttp10, 400, "chunked_in_http10", "Transfer-Encoding in an HTTP/1.0 message (RFC 9112 §6.1)";
    /// A CONNECT request that announces a body.
    ConnectWithBody, 400, "connect_with_body", "a CONNECT request announces a body (RFC 9110 §9.3.6)";
    /// A Connection option that is not a token.
    ConnectionInvalid, 400, "connection_invalid", "a Connection option is not a token (RFC 9110 §7.6.1)";
    /// Connection asks to remove a header that is meant for every recipient.
    ConnectionNamesProtected, 400, "connection_names_protected", "Connection lists a header that must reach every recipient (RFC 9110 §7.6.1)";

    /// A 1xx or 204 that announces a body.
    BodyOnBodilessStatus, 400, "body_on_bodiless_status", "a 1xx or 204 response announces a body (RFC 9112 §6.1)";
    /// A chunked response to an HTTP/1.0 request.
    ChunkedToHttp10, 400, "chunked_to_http10", "a chunked response to an HTTP/1.0 request (RFC 9112 §6.1)";
    /// 101 without an upgrade having been asked for.
    SwitchUnasked, 400, "switch_unasked", "101 Switching Protocols without a forwarded Upgrade (RFC 9110 §15.2.2)";

    /// A chunk size that is empty or not hexadecimal.
    ChunkSizeInvalid, 400, "chunk_size_invalid", "a chunk size is not a hexadecimal number (RFC 9112 §7.1)";
    /// A chunk size that does not fit 63 bits.
    ChunkSizeOverflow, 400, "chunk_size_overflow", "a chunk size does not fit 63 bits";
    /// Something other than white space, `;` or CRLF after a chunk size.
    ChunkExtensionInvalid, 400, "chunk_extension_invalid", "something other than an extension follows a chunk size (RFC 9112 §7.1.1)";
    /// Extensions of one chunk longer than `chunk_extension_bytes_max`.
    ChunkExtensionTooLarge, 400, "chunk_extension_too_large", "the extensions of a chunk are longer than chunk_extension_bytes_max";
    /// No CRLF after the data of a chunk.
    ChunkDataUnterminated, 400, "chunk_data_unterminated", "no CRLF after the data of a chunk (RFC 9112 §7.1)";
    /// A trailer section longer than `trailer_bytes_max`.
    TrailersTooLarge, 431, "trailers_too_large", "the trailer section is longer than trailer_bytes_max";
    /// The connection ended inside a message.
    Truncated, 400, "truncated", "the connection ended before the message did (RFC 9112 §8)";
}
