"""Tables of the names that clients use for tools and for their properties, by purpose."""

from collections.abc import Mapping
from typing import Literal

Capability = (
    Literal["shell", "stdin", "read", "write", "edit", "delete", "list", "grep", "glob"]
    | Literal["fetch", "diagnostics", "task", "question", "resources", "resource"]
)
Role = (
    Literal["path", "command", "content", "pattern", "old", "new", "url", "prompt", "format", "workdir", "timeout"]
    | Literal["background", "description", "start", "end", "count", "range", "whole", "lines", "glob", "mode"]
    | Literal["before", "after", "context", "insensitive", "sensitive", "type", "multiline", "numbers", "most"]
    | Literal["regexp", "ignore", "server", "uri", "session", "chars", "names"]
)

# Names are compared in lower case, with letters and digits only. The first name that the client offers is used.
NAMES: Mapping[Capability, tuple[str, ...]] = {
    "shell": (
        *("bash", "shell", "runshellcommand", "runterminalcommand", "runterminalcmd", "runterminal", "runinterminal"),
        *("execcommand", "executecommand", "shellcommand", "runcommand", "runcommands", "localshell", "terminal"),
        *("executebash", "runbash", "exec", "execute", "sh", "cmd", "powershell", "run"),
    ),
    "read": (
        *("read", "readfile", "readfiles", "viewfile", "view", "openfile", "readtextfile", "fsread", "fileread"),
        *("getfile", "getfilecontents", "cat", "readmanyfiles", "strreplacebasededittool", "strreplaceeditor"),
        *("texteditor",),
    ),
    "write": (
        *("write", "writefile", "createfile", "writetofile", "createnewfile", "savefile", "save", "create", "fswrite"),
        *("filewrite", "newfile", "strreplacebasededittool", "strreplaceeditor", "texteditor", "editor"),
    ),
    "edit": (
        *("edit", "editfile", "strreplace", "replace", "searchreplace", "replaceinfile", "multiedit", "fsedit"),
        *("strreplacebasededittool", "strreplaceeditor", "texteditor", "editor", "applypatch"),
    ),
    "delete": ("delete", "deletefile", "removefile", "rm", "remove", "deletefiles", "unlink"),
    "list": (
        *("list", "ls", "listdirectory", "listdir", "listfiles", "readdirectory", "listfolder", "tree"),
        *("listdirectorycontents", "directorytree"),
    ),
    "grep": (
        *("grep", "grepsearch", "searchcontent", "searchfilecontent", "searchfiles", "ripgrep", "rg", "searchtext"),
        *("findinfiles", "grepfiles", "search"),
    ),
    "glob": (
        *("glob", "globsearch", "findfiles", "filesearch", "globfilesearch", "globfiles", "find"),
        *("searchfilesbyname", "searchfiles"),
    ),
    "fetch": (
        *("webfetch", "fetch", "fetchurl", "fetchwebpage", "urlfetch", "httpget", "readurl", "readurlcontent"),
        *("fetchurlcontent", "geturl", "openurl", "browse"),
    ),
    "diagnostics": (
        *("diagnostics", "getdiagnostics", "readlints", "lspdiagnostics", "filediagnostics", "geterrors"),
        *("getproblems", "problems", "lint"),
    ),
    "task": ("task", "agent", "subagent", "runsubagent", "spawnagent", "newtask", "dispatchagent", "delegate"),
    "question": ("askuserquestion", "askfollowupquestion", "question", "askquestion", "askuser", "requestuserinput"),
    "stdin": ("writestdin", "writeshellstdin", "sendinput", "sendtoterminal", "writetoterminal"),
    "resources": ("listmcpresources", "listmcpresourcestool", "listresources"),
    "resource": ("readmcpresource", "readmcpresourcetool", "fetchmcpresource", "accessmcpresource", "readresource"),
}
# Some clients use these names for a search of file contents, others for a search of file names.
AMBIGUOUS = frozenset(["searchfiles"])
# Names that refer to files only if they have no server prefix: `mcp__chat__search` searches a chat.
VAGUE = frozenset(
    [
        *("run", "execute", "exec", "terminal", "cmd", "sh", "read", "view", "cat", "getfile", "openfile", "write"),
        *("save", "create", "newfile", "editor", "edit", "replace", "delete", "remove", "rm", "list", "tree", "search"),
        *("searchfiles", "find", "fetch", "browse", "problems", "lint", "task", "agent", "delegate", "geterrors"),
    ]
)
PROPERTIES: Mapping[Role, tuple[str, ...]] = {
    "path": (
        *("filepath", "absolutepath", "path", "filename", "file", "targetfile", "abspath", "relativepath"),
        *("relativeworkspacepath", "dirpath", "directory", "directorypath", "targetdirectory", "dir", "folder"),
        *("paths", "filepaths", "files", "filenames", "target", "uri", "name"),
    ),
    "command": ("command", "cmd", "commandline", "shellcommand", "script", "commands", "code", "input"),
    "content": ("content", "contents", "filetext", "text", "filecontent", "newtext", "codecontent", "data", "body"),
    "pattern": (
        *("pattern", "query", "regex", "regexp", "globpattern", "searchterm", "searchpattern", "search", "term"),
        *("keyword", "q", "queries", "patterns", "text"),
    ),
    "old": ("oldstring", "oldstr", "oldtext", "old", "search", "find", "searchtext", "target"),
    "new": ("newstring", "newstr", "newtext", "new", "replace", "replacement", "replacetext", "content"),
    "url": ("url", "uri", "urls", "link", "address", "href"),
    "prompt": ("prompt", "question", "instructions", "objective", "query"),
    "format": ("format",),
    "workdir": ("workdir", "workingdirectory", "cwd", "workingdir", "directory", "dir"),
    "timeout": (
        *("timeout", "timeoutms", "timeoutmillis", "timeoutmilliseconds", "timeoutseconds", "timeoutsecs", "timeouts"),
        *("timeoutsec", "timelimit", "yieldtimems"),
    ),
    "background": ("runinbackground", "isbackground", "background", "detach", "detached"),
    "description": (
        *("description", "explanation", "reason", "purpose", "summary", "rationale", "justification", "thought"),
        *("intent",),
    ),
    "start": (
        *("offset", "startline", "startlineoneindexed", "linestart", "fromline", "firstline", "startlinenumber"),
        *("start",),
    ),
    "end": (
        *("endline", "endlineoneindexedinclusive", "endlineinclusive", "lineend", "toline", "lastline"),
        *("endlinenumber", "end"),
    ),
    "count": ("limit", "maxlines", "numlines", "numberoflines", "linelimit"),
    "range": ("viewrange", "linerange"),
    "whole": ("shouldreadentirefile", "entirefile", "readentirefile", "wholefile"),
    "lines": ("linecount",),
    "glob": (
        *("glob", "include", "includepattern", "filepattern", "fileglob", "includes", "includeglob", "globpattern"),
        *("fileglobpattern", "files"),
    ),
    "mode": ("outputmode", "mode"),
    "names": ("filesonly", "fileswithmatches", "namesonly"),
    "before": ("b", "contextbefore", "beforecontext", "before"),
    "after": ("a", "contextafter", "aftercontext", "after"),
    "context": ("c", "context", "contextlines"),
    "insensitive": ("i", "caseinsensitive", "ignorecase", "insensitive"),
    "sensitive": ("casesensitive", "matchcase"),
    "type": ("type", "filetype"),
    "multiline": ("multiline",),
    "numbers": ("n", "linenumbers", "showlinenumbers"),
    "most": ("headlimit", "maxresults", "limit", "maxcount"),
    "regexp": ("isregexp", "isregex", "useregex"),
    "ignore": ("ignore", "ignoreglobs", "ignorepatterns", "exclude", "excludepatterns"),
    "server": ("server", "servername", "serverid"),
    "uri": ("uri", "resourceuri", "url"),
    "session": ("sessionid", "shellid", "processid", "terminalid", "id"),
    "chars": ("chars", "input", "text", "data", "stdin"),
}
# Editor tools that combine several capabilities have a property for the command; these are its values.
COMMANDS: Mapping[Capability, tuple[str, ...]] = {
    "read": ("view", "read", "open"),
    "write": ("create", "write"),
    "edit": ("str_replace", "replace", "edit"),
}
CAUTIOUS = frozenset(["requiresapproval", "requireuserapproval", "needsapproval"])
"""Boolean properties for which true is the safe value. For all others, the safe value is false."""
